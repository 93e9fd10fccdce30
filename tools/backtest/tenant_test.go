package backtest

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// named is a recording of ten minutes: ann of tenant acme and ann of the default tenant each fall silent for a
// minute, four times. acme has a policy of its own from the beginning, and a calmer one after five minutes.
func named(t *testing.T, in InForce) []byte {
	t.Helper()
	var out bytes.Buffer
	recorder := must.Get(NewRecorder(&out, "presence.heartbeats", 1, in))(t)
	users, offset := identity.Named(identity.Key{1}), int64(0)
	put := func(at schemas.Millis, value []byte) {
		must.Do(t, recorder.Write(&schemas.Record{Offset: offset, Time: 1_795_000_000_000 + at, Value: value}))
		offset++
	}
	calm := quick()
	calm.AwayTTL = time.Hour
	for at := schemas.Millis(0); at < 600_000; at += 250 {
		put(at, schemas.AppendTick(nil))
		if at == 300_000 {
			put(at, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "acme", Policy: &calm}))
		}
		if at%15_000 != 0 || at%150_000 >= 90_000 {
			continue
		}
		beats := []schemas.Beat{{User: users.ID("acme", "ann"), Device: 1}, {User: users.ID("", "ann"), Device: 1}}
		frame := schemas.AppendFrame(nil, schemas.FrameHead{}, beats)
		if at >= 30_000 { // the names come late
			frame = schemas.AppendNamedRow(schemas.AppendNamedRow(frame, 0, schemas.Name{Tenant: "acme", Text: "ann"}), 1, schemas.Name{Text: "ann"})
		}
		put(at, frame)
	}
	must.Do(t, recorder.Close())
	return out.Bytes()
}

// quick makes users offline who are silent for 20 s.
func quick() schemas.Policy {
	p := schemas.DefaultPolicy()
	p.HeartbeatInterval, p.OnlineTTL, p.OfflineDebounce, p.AwayTTL = 5*time.Second, 19*time.Second, time.Second, 0
	return p
}

func atTheBeginning() InForce {
	pipeline, own := schemas.DefaultPolicy(), quick()
	return InForce{Identity: identity.Named(identity.Key{1}).Pipeline(), Known: true, Policy: &pipeline,
		Tenants: []schemas.TenantPolicy{{Tenant: "acme", Policy: &own}}}
}

func try(t *testing.T, recording []byte, tenant *string, policies ...Policy) (*Report, error) {
	t.Helper()
	source := must.Get(OpenRecording(bytes.NewReader(recording), nil))(t)
	return Run(t.Context(), source, Options{Policies: policies, Tenant: tenant, Flap: 2 * time.Minute})
}

func TestTenantsAreJudgedByTheirPoliciesOfTheLog(t *testing.T) {
	t.Parallel()
	recording := named(t, atTheBeginning())
	acme, own, nobody := "acme", "", "nobody"
	log, never := Policy{Name: "log", AsLogged: true}, Policy{Name: "never", Settings: schemas.DefaultPolicy()}
	never.Settings.OnlineTTL, never.Settings.AwayTTL = time.Hour, 0
	for _, c := range []struct {
		tenant                  *string
		offline, away           int64 // by the log
		neverOffline, neverAway int64 // by a policy that ends nothing
	}{
		{&acme, 2, 2, 0, 0}, // offline twice, then only away
		{&own, 0, 4, 0, 0},
		{nil, 2, 6, 2, 2}, // acme goes by its own policies all the same
	} {
		r := must.Get(try(t, recording, c.tenant, log, never))(t)
		byLog, tried := r.Policies[0], r.Policies[1]
		if byLog.Offline != c.offline || byLog.Away != c.away || tried.Offline != c.neverOffline || tried.Away != c.neverAway {
			t.Errorf("of %v the log has %d changes to offline and %d to away, and the trial %d and %d, must be %+v",
				c.tenant, byLog.Offline, byLog.Away, tried.Offline, tried.Away, c)
		}
		if c.tenant != nil && (r.Users != 1 || r.Beats != 24) || c.tenant == nil && (r.Users != 0 || r.Beats != 48) {
			t.Errorf("of %v there are %d users and %d beats", c.tenant, r.Users, r.Beats)
		}
	}
	if _, err := try(t, recording, &nobody, log); err == nil || !strings.Contains(err.Error(), `--tenant: no user of tenant "nobody"`) {
		t.Errorf("of nobody: %v", err)
	}
	if _, err := try(t, named(t, InForce{}), nil, log); err == nil || !strings.Contains(err.Error(), "needs the policy that was in force") {
		t.Errorf("of a recording without policies: %v", err)
	}
	if _, err := ParsePolicy(liveness.Defaults(), true, "online_ttl=1m", "cohort_rate=5"); err == nil || !strings.Contains(err.Error(), "cohort_rate") {
		t.Errorf("a tenant cannot have a cohort rate: %v", err)
	}
	base := liveness.Defaults()
	base.OnlineTTL, base.CohortRate = base.OnlineTTL+1, base.CohortRate+1
	p, err := ParsePolicy(base, true, "default")
	if must.Do(t, err); p.Settings.OnlineTTL != base.OnlineTTL-1 || p.Settings.CohortRate != base.CohortRate {
		t.Errorf("of a preset a tenant gets %+v", p.Settings)
	}
}

func TestARecordingKeepsWhatWasInForce(t *testing.T) {
	t.Parallel()
	for _, in := range []InForce{{}, {Known: true}, atTheBeginning()} {
		source := must.Get(OpenRecording(bytes.NewReader(named(t, in)), nil))(t)
		if got := source.InForce(); !reflect.DeepEqual(got, in) {
			t.Errorf("it keeps %+v, must be %+v", got, in)
		}
	}
}

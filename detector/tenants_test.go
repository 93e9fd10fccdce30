package detector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/pertenant"
	"github.com/stillhere/stillhere/schemas"
)

// recounted are the counts by tenant that follow from the newest statuses that l wrote.
func (l *log) recounted() map[string]schemas.Counts {
	l.t.Helper()
	newest := map[string][]byte{}
	for _, r := range l.statuses {
		if schemas.IsRulesKey(r.Key) {
			continue
		}
		newest[string(r.Key)] = r.Value
	}
	counts := map[string]schemas.Counts{}
	for _, value := range newest {
		if value == nil {
			continue
		}
		s, err := schemas.DecodeStatus(value)
		if err != nil {
			l.t.Fatal(err)
		}
		if s.Visibility == schemas.Nobody || s.Absent() || s.Name.Text == "" {
			continue
		}
		c := counts[s.Name.Tenant]
		liveness.Counted{State: s.State, Kinds: s.Kinds}.AddTo(&c, &c, 1)
		counts[s.Name.Tenant] = c
	}
	return counts
}

// judged are the counts by tenant that follow from all users, also from those whose changes wait.
func (l *log) judged() map[string]schemas.Counts {
	counts := map[string]schemas.Counts{}
	for user, as := range l.p.machine.AllCounted {
		if tenant, known := l.p.names.tenantOf(user); known {
			c := counts[tenant]
			as.AddTo(&c, &c, 1)
			counts[tenant] = c
		}
	}
	return counts
}

func (l *log) counted() map[string]schemas.Counts {
	counts := map[string]schemas.Counts{}
	for tenant, c := range l.p.tenants.counts {
		counts[tenant] = *c
	}
	return counts
}

func TestTheCountsOfTenantsAreThoseOfTheStatusesAfterEveryRecord(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := namedLog(t, 0, 1)
		l.settings.FlapBurst = 3
		if seed%2 == 0 {
			l.settings.FlapBurst = 0
		}
		l.restore(-1, "")
		user := func() schemas.Name {
			return schemas.Name{Tenant: []string{"", "acme", "other"}[rng.IntN(3)], Text: fmt.Sprint(rng.IntN(6))}
		}
		now, most := start, 0
		for step := range 600 {
			n := user()
			id := named.ID(n.Tenant, n.Text)
			var value []byte
			switch rng.IntN(16) {
			case 0, 1, 2, 3, 4:
				value = namedBeat(n, schemas.DeviceID(1+rng.IntN(3)))
			case 5, 6: // the name comes late, or not at all
				value = beatOf(n, schemas.DeviceID(1+rng.IntN(3)))
			case 7:
				value = schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: schemas.DeviceID(1 + rng.IntN(3)), Bye: true}})
			case 8:
				value = schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 9, Kind: schemas.Mobile, Idle: 600_000}})
			case 9:
				value = schemas.AppendNamedVisibility(nil, id, schemas.Nobody, n)
			case 10, 11:
				value = schemas.AppendVisibility(nil, id, schemas.Everyone)
			case 12:
				value = schemas.AppendErasure(nil, id, schemas.Name{}, now+100_000, now+50_000, false)
			case 13:
				l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
				value = schemas.AppendTick(nil)
			default:
				value = schemas.AppendTick(nil)
				now += schemas.Millis(rng.IntN(20_000))
			}
			now += schemas.Millis(rng.IntN(3000))
			l.write(now, value)
			want, got := l.recounted(), l.counted()
			if l.settings.FlapBurst > 0 { // statuses do not say what waits
				want = l.judged()
			}
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d, step %d: counts are %+v, by the statuses %+v", seed, step, got, want)
			}
			most = max(most, len(got))
		}
		if most != 3 {
			t.Fatalf("seed %d: at most %d tenants had users at once, want 3", seed, most)
		}
	}
}

func TestAUserCountsForTheTenantOfItsFirstName(t *testing.T) {
	l := namedLog(t, 0, 1)
	ann, bob := namesakes[1][0], namesakes[1][1]
	for i, n := range []schemas.Name{ann, bob} {
		l.write(start+schemas.Millis(i), namedBeat(n, schemas.DeviceID(1+i)))
		if got := l.counted(); len(got) != 1 || got[ann.Tenant].Online != 1 {
			t.Errorf("after %v the counts are %+v", n, got)
		}
	}
}

func TestTheLargestTenantsAreNamedAndTheOthersAddedUp(t *testing.T) {
	all := &tenants{counts: map[string]*schemas.Counts{}}
	for i := range 10 {
		for range i + 1 {
			all.add(fmt.Sprint("t", i), liveness.Counted{State: schemas.Away, Kinds: 1 << schemas.Web}, 1)
		}
	}
	list, others := all.largest(3)
	var called []string
	for _, c := range list {
		called = append(called, fmt.Sprint(c.Tenant, " ", c.Away))
	}
	if !slices.Equal(called, []string{"t9 10", "t8 9", "t7 8"}) || others == nil || others.Away != 28 {
		t.Errorf("the largest are %v, the others %+v", called, others)
	}
	if list, others = all.largest(10); len(list) != 10 || others != nil {
		t.Errorf("all are %d and %+v", len(list), others)
	}
}

func TestCountsOfTenantsGoOutWithTheCounts(t *testing.T) {
	l := namedLog(t, 0, 1)
	l.write(start, namedBeat(schemas.Name{Tenant: "acme", Text: "ann"}, 1))
	l.write(start+1, beatOf(schemas.Name{Tenant: "acme", Text: "nameless"}, 1))
	l.write(start+2000, schemas.AppendTick(nil))
	if len(l.out.Hints) != 1 {
		t.Fatalf("%d hints", len(l.out.Hints))
	}
	s, err := schemas.DecodeSeen(l.out.Hints[0].Value)
	if err != nil || s.Counts == nil || s.Counts.Online != 2 || s.OtherTenants != nil || len(s.Tenants) != 1 ||
		s.Tenants[0] != (schemas.TenantCounts{Tenant: "acme", Counts: schemas.Counts{Online: 1, ByKind: [5]int64{2: 1}}}) {
		t.Errorf("the hint is %+v, %v", s, err)
	}
}

func TestTheGaugeOfTenantsAddsPartitionsUpAndNamesTheLargest(t *testing.T) {
	g := newTenantUsers(prometheus.NewRegistry())
	var list []schemas.TenantCounts
	for i := range pertenant.Series + 5 {
		list = append(list, schemas.TenantCounts{Tenant: fmt.Sprintf("t%03d", i), Counts: schemas.Counts{Online: 1, Away: 1}})
	}
	g.show(0, list, nil)
	g.show(1, []schemas.TenantCounts{{Tenant: "t104", Counts: schemas.Counts{Online: 7}}}, &schemas.Counts{Away: 3})
	sums := g.sums()
	if len(sums) != pertenant.Series+1 || sums[0].Tenant != "t104" || sums[0].Online != 8 || sums[0].Away != 1 ||
		sums[pertenant.Series] != (schemas.TenantCounts{Tenant: "*", Counts: schemas.Counts{Online: 5, Away: 8}}) {
		t.Errorf("the gauge has %d tenants, first %+v, last %+v", len(sums), sums[0], sums[len(sums)-1])
	}
	if n := testutil.CollectAndCount(g); n != 2*(pertenant.Series+1) {
		t.Errorf("%d series", n)
	}
	g.hide(0)
	g.hide(1)
	if sums := g.sums(); len(sums) != 0 {
		t.Errorf("without partitions the gauge has %+v", sums)
	}
}

package httpgate_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/tenantstest"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// bounded runs a test in virtual time against a gate with quotas of tenants.
func bounded(t *testing.T, quotas schemas.TenantQuotas, test func(d endpoint, accounts *tenants.Accounts)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		accounts := tenantstest.Accounts(t, schemas.Tenant{Name: "acme", Quotas: quotas})
		d := open(t, byName(), erases, func(g *httpgate.Gate) { g.BoundTenants(accounts) })
		test(d, accounts)
		d.stop()
	})
}

const (
	annOfAcme  = `{"user_id":"ann","device_id":"d","tenant":"acme"}`
	benOfAcme  = `{"user_id":"ben","device_id":"d","tenant":"acme"}`
	annOfOther = `{"user_id":"ann","device_id":"d","tenant":"other-one"}`
	byeOfAcme  = `{"user_id":"cara","device_id":"d","tenant":"acme","bye":true}`
)

// counted is how many beats are written since the last time, of each tenant.
func (d endpoint) counted(before map[string]int) map[string]int {
	now := map[string]int{}
	for _, w := range d.log.Written() {
		for i := range w.Beats {
			for _, tenant := range []string{"acme", "other-one"} {
				for _, name := range []string{"ann", "ben", "cara"} {
					if people.ID(tenant, name) == w.Beats[i].User {
						now[tenant]++
					}
				}
			}
		}
	}
	for tenant, n := range before {
		now[tenant] -= n
	}
	return now
}

func TestATenantOverItsQuotaOfBeatsDisturbsNoOther(t *testing.T) {
	t.Parallel()
	bounded(t, schemas.TenantQuotas{BeatsPerSecondPerProcess: 2}, func(d endpoint, _ *tenants.Accounts) {
		d.wants(d.post(`{"beats":[`+annOfAcme+`,`+annOfOther+`,`+benOfAcme+`]}`), 202, `{"accepted":3}`)
		answer := d.post(`{"beats":[` + annOfAcme + `]}`)
		d.wants(answer, 429, `{"error":{"code":"tenant_quota","message":"beats_per_second_per_process: tenant \"acme\" is at its quota of 2; try again later","field":"beats_per_second_per_process"}}`)
		if after := answer.Header().Get("Retry-After"); after != "1" {
			d.t.Errorf("Retry-After: %s", after)
		}
		d.wants(d.post(`{"beats":[`+annOfOther+`]}`), 202, `{"accepted":1}`)
		before := d.counted(nil)
		d.wants(d.post(`{"beats":[`+annOfAcme+`,`+annOfOther+`,`+benOfAcme+`]}`), 202,
			`{"accepted":1,"refused":[{"tenant":"acme","quota":"beats_per_second_per_process","beats":[0,2],"retry_after_ms":500}]}`)
		if got := d.counted(before); got["acme"] != 0 || got["other-one"] != 1 {
			d.t.Errorf("written are %v", got)
		}
		message, err := proto.Marshal(&pb.HeartbeatsRequest{Beats: []*pb.Beat{{Name: "ann", Device: "d", Tenant: "acme"}, {Name: "ann", Device: "d", Tenant: "other-one"}}})
		must.Do(d.t, err)
		got := new(pb.HeartbeatsResponse)
		must.Do(d.t, proto.Unmarshal(d.post(string(message), "Content-Type", "application/protobuf", "Accept", "application/protobuf").Body.Bytes(), got))
		want := &pb.HeartbeatsResponse{Accepted: 1, Refused: []*pb.RefusedBeats{{Tenant: "acme", Quota: "beats_per_second_per_process", Beats: []uint32{0}, RetryAfterMs: 500}}}
		if !proto.Equal(got, want) {
			d.t.Errorf("in Protobuf: %v, want %v", got, want)
		}
		pass(time.Second)
		d.wants(d.post(`{"beats":[`+annOfAcme+`]}`), 202, `{"accepted":1}`)
	})
}

func TestAFullTenantTakesNoNewcomersAndKeepsItsUsers(t *testing.T) {
	t.Parallel()
	bounded(t, schemas.TenantQuotas{UsersOnline: 100}, func(d endpoint, accounts *tenants.Accounts) {
		accounts.BoundOnline(func(string) (int64, bool) { return 100, true }, func(_ context.Context, users []schemas.UserID) ([]bool, error) {
			present := make([]bool, len(users))
			for i := range users {
				present[i] = users[i] == people.ID("acme", "ann")
			}
			return present, nil
		})
		d.wants(d.post(`{"beats":[`+annOfAcme+`]}`), 202, `{"accepted":1}`)
		answer := d.post(`{"beats":[` + benOfAcme + `]}`)
		d.wants(answer, 429, `{"error":{"code":"tenant_quota","message":"users_online: tenant \"acme\" is at its quota of 100; try again later","field":"users_online"}}`)
		if answer.Header().Get("Retry-After") == "" {
			d.t.Error("there is no Retry-After")
		}
		before := d.counted(nil)
		var got struct {
			Accepted int
			Refused  []struct {
				Quota string
				Beats []int
			}
		}
		if err := json.Unmarshal(d.post(`{"beats":[`+annOfAcme+`,`+benOfAcme+`,`+byeOfAcme+`,`+annOfOther+`]}`).Body.Bytes(), &got); err != nil ||
			got.Accepted != 3 || len(got.Refused) != 1 || got.Refused[0].Quota != "users_online" || len(got.Refused[0].Beats) != 1 || got.Refused[0].Beats[0] != 1 {
			d.t.Errorf("%+v, %v", got, err)
		}
		if got := d.counted(before); got["acme"] != 2 || got["other-one"] != 1 {
			d.t.Errorf("written are %v", got)
		}
	})
}

func TestATenantsChangesAreBoundedByKind(t *testing.T) {
	t.Parallel()
	bounded(t, schemas.TenantQuotas{ChangesPerSecondPerProcess: 1}, func(d endpoint, _ *tenants.Accounts) {
		hide := func(tenant string) int {
			return d.send(http.MethodPut, "/presence/ann/visibility?tenant="+tenant, `{"visibility":"nobody"}`).Code
		}
		// A request counts once, whatever it changes.
		audience := func(tenant string) int {
			return d.send(http.MethodPut, "/presence/ben/audience?tenant="+tenant, `{"base":"nobody","last_seen":"never"}`).Code
		}
		deny := func(tenant string) int {
			return d.send(http.MethodPost, "/presence/ben/audience/deny?tenant="+tenant, `{"add":["ann","cara"]}`).Code
		}
		erase := func(tenant string) int { return d.send(http.MethodDelete, "/presence/ann?tenant="+tenant, "").Code }
		for _, c := range []struct {
			what      string
			got, want int
		}{
			{"a change of visibility", hide("acme"), 200}, {"the next", hide("acme"), 429}, {"one of another tenant", hide("other-one"), 200},
			{"an audience", audience("acme"), 429}, {"a denial", deny("acme"), 429},
			{"an erasure", erase("acme"), 200}, {"the next", erase("acme"), 429}, {"one of another tenant", erase("other-one"), 200},
		} {
			if c.got != c.want {
				d.t.Errorf("%s is answered %d, want %d", c.what, c.got, c.want)
			}
		}
		pass(time.Second)
		if got := hide("acme"); got != 200 {
			d.t.Errorf("a second later a change of visibility is answered %d", got)
		}
		pass(time.Second)
		if got, next := audience("acme"), audience("acme"); got != 200 || next != 429 {
			d.t.Errorf("after another second an audience is answered %d, and the next one %d", got, next)
		}
	})
}

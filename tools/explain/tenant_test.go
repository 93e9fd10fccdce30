package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

func TestThePolicyOfATenantIsKnownAlsoWhenTheTenantHasAnotherOneByNow(t *testing.T) {
	t.Parallel()
	users := identity.Named(identity.Key{1})
	w := newWorldOf(t, users)
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	id := users.ID(ann.Tenant, ann.Text)
	set := func(awayTTL time.Duration) schemas.Policy {
		own := w.settings
		own.AwayTTL = awayTTL
		tenant := schemas.TenantPolicy{Tenant: ann.Tenant, Policy: &own}
		outs := []schemas.Outgoing{{Topic: schemas.Pipeline, Key: tenant.Key(), Value: tenant.Encode()}}
		for p := range int32(2) {
			outs = append(outs, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p, Value: schemas.AppendTenantPolicy(nil, tenant)})
		}
		w.must(w.producer.AppendSync(t.Context(), outs...))
		return own
	}
	quick := set(500 * time.Millisecond)
	frame := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 7, Kind: schemas.Mobile}})
	w.must(w.producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Heartbeats,
		Partition: schemas.PartitionOf(id, 2), Value: schemas.AppendNamedRow(frame, 0, ann)}))
	w.next(id) // online
	w.next(id) // away
	offline := w.next(id)
	set(2 * time.Second)

	policies, err := policy.OfTenants(t.Context(), w.reader)
	w.must(err)
	o := Options{Event: offline.EventID().String(), User: id, Called: ann, Settings: w.settings, Prefix: "presence.", Names: known{}}
	for _, p := range policies {
		o.Tenants = append(o.Tenants, p.TenantPolicy)
	}
	e, text := w.explain(o)
	if !e.Policy.Known || e.Policy.ID != quick.ID() || e.Policy.Tenant == nil || *e.Policy.Tenant != "acme" || e.Rule.Rest != "" ||
		len(e.Rule.Sum) != 2 || e.Rule.Sum[1].Add != "500ms" {
		printed, _ := json.Marshal(e)
		t.Errorf("%s", printed)
	}
	wants(t, text, "By policy "+quick.ID()+", which has the settings of tenant acme:", "away_ttl 500ms")

	o.Names = known{id: schemas.UserName{User: id, Name: schemas.Name{Text: "another"}}}
	if e, text = w.explain(o); !e.Policy.Known || e.Policy.Tenant != nil || strings.Contains(text, "acme") {
		t.Errorf("of a user who is known by another name: %s", text)
	}
	o.Tenants = nil
	if e, _ = w.explain(o); e.Policy.Known || e.Rule.Sum != nil {
		t.Errorf("without the policies of tenants: %+v, %+v", e.Policy, e.Rule)
	}
}

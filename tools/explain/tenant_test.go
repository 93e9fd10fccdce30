package explain

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
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

	e, text := w.explain(Options{Event: offline.EventID().String(), User: id, Called: ann, Names: known{}})
	if e.Policy.ID != quick.ID() || !e.Replay.Agrees || e.Replay.Before.Next != offline.At {
		printed, _ := json.Marshal(e)
		t.Errorf("%s", printed)
	}
	wants(t, text, "By policy "+quick.ID()+":", "away_ttl 500ms")
}

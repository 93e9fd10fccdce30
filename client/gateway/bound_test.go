package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestEveryFrameUnderAKeyThatIsBoundToATenantCounts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	identityKey, master := identity.NewKey(), signing.NewMaster()
	topics := kafkatest.Start(t, identity.Named(identityKey), 1)
	key := must.Get(master.GatewayKey("acme/gw-1", []string{"acme"}))(t)
	g, err := gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: topics.Brokers}, ID: "acme/gw-1", IdentityKey: identityKey.Hex(), Key: key.Text(),
		FlushInterval: 10 * time.Millisecond})
	must.Do(t, err)
	reader := kafkatest.Reader(t, topics)
	checker, rows, next := signing.Of([]signing.Master{master}).Checker("presence.heartbeats", 0), 0, int64(0)
	written := func(want int) {
		t.Helper()
		for rows < want && ctx.Err() == nil {
			err := reader.Read(ctx, schemas.Heartbeats, 0, next, -1, false, func(r *schemas.Record) error {
				var frame schemas.Frame
				next = r.Offset + 1
				if err := errors.Join(frame.Decode(r.Value), checker.Check(&frame, r.Time)); err != nil {
					t.Errorf("record %d is refused: %v", r.Offset, err)
				}
				rows += frame.Rows()
				return nil
			})
			must.Do(t, err)
		}
		if rows != want {
			t.Errorf("%d rows are written, want %d", rows, want)
		}
	}
	acme := g.Tenant("acme")
	for i := range 3 { // each is in the log before the next
		if err := acme.Beat("ann", "phone", schemas.Mobile, 0); err != nil {
			t.Error(err)
		}
		written(i + 1)
	}
	if err := errors.Join(acme.Bye("ann", "phone"), g.Close(ctx)); err != nil {
		t.Error(err)
	}
	written(4)
}

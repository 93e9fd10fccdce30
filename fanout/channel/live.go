package channel

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// Bus carries deliveries to the nodes that serve viewers.
type Bus interface {
	// PublishDelivery returns when the bus has it. Called from several goroutines.
	PublishDelivery(ctx context.Context, d *schemas.Delivery) error
}

// Live brings notices to the recipients who are connected to a node that listens on
// the bus, and want to be told. Nobody keeps what those who are not connected missed.
type Live struct{ bus Bus }

// NewLive makes one.
func NewLive(bus Bus) *Live { return &Live{bus} }

// Deliver puts a notice on the bus.
func (l *Live) Deliver(ctx context.Context, n schemas.Notice) error {
	return l.bus.PublishDelivery(ctx, &schemas.Delivery{Transition: n.Transition, Recipients: n.Recipients})
}

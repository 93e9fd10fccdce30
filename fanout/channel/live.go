package channel

import (
	"context"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/schemas"
)

// Bus carries deliveries to the nodes that serve viewers.
type Bus interface {
	// PublishDelivery returns when the bus has d. Several goroutines call it.
	PublishDelivery(ctx context.Context, d *schemas.Delivery) error
}

// Live brings notices to recipients who are connected to a node on the bus and want deliveries. Other
// recipients miss them: nothing is stored.
type Live struct{ bus Bus }

// NewLive makes a Live.
func NewLive(bus Bus) *Live { return &Live{bus} }

// Deliver puts a notice on the bus.
func (l *Live) Deliver(ctx context.Context, n delivery.Notice) error {
	return l.bus.PublishDelivery(ctx, n.Delivery)
}

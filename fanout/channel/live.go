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

// Hides tells whether user hides by a transition after version.
type Hides func(user schemas.UserID, version schemas.Version) bool

// Live brings notices to the recipients who are connected to a node that listens on
// the bus, and want to be told. Nobody keeps what those who are not connected missed.
type Live struct {
	bus   Bus
	hides Hides
}

// NewLive makes one. Of a user who hides by now nothing goes out, however late a
// delivery is read.
func NewLive(bus Bus, hides Hides) *Live { return &Live{bus, hides} }

// Deliver puts a notice on the bus.
func (l *Live) Deliver(ctx context.Context, n Notice) error {
	if l.hides(n.Transition.User, n.Transition.Version) {
		return nil
	}
	return l.bus.PublishDelivery(ctx, &schemas.Delivery{Transition: n.Transition, Recipients: n.Recipients})
}

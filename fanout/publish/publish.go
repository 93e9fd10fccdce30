// Package publish publishes every visible transition on its user's channel, for viewers.
package publish

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Bus brings changes to the nodes that have viewers.
type Bus interface {
	// Publish sends changes in order, each unless this version or a newer one was sent before, and
	// returns how many it sent. After an error any number of them has been sent; sending them again
	// is harmless. Safe for concurrent use.
	Publish(ctx context.Context, changes []fanout.Change) (sent int, err error)
}

// Handler handles presence.transitions.
type Handler struct {
	bus     Bus
	metrics *fanout.Metrics
	change  func(*schemas.Transition) (fanout.Change, bool)
}

// New makes a Handler. config.HiddenOffline says how viewers see a hidden user.
func New(bus Bus, config fanout.Config, metrics *fanout.Metrics) *Handler {
	h := &Handler{bus: bus, metrics: metrics, change: fanout.ChangeOf}
	if config.HiddenOffline {
		h.change = fanout.OfflineChangeOf
	}
	return h
}

// Apply publishes what viewers may know of batch. After an error the caller calls it again with the
// same batch. Partitions may be handled concurrently, the batches of one partition only in order.
func (h *Handler) Apply(ctx context.Context, batch stream.Batch[stream.Logged[*schemas.Transition]]) error {
	changes := make([]fanout.Change, 0, len(batch.Items))
	for _, item := range batch.Items {
		if c, ok := h.change(item.Message); ok {
			changes = append(changes, c)
		}
	}
	if len(changes) > 0 {
		sent, err := h.bus.Publish(ctx, changes)
		h.metrics.Published.Add(float64(sent))
		if err != nil {
			return fmt.Errorf("publishing %d changes of partition %d before offset %d: %w",
				len(changes), batch.Partition, batch.Next, err)
		}
		h.metrics.Superseded.Add(float64(len(changes) - sent))
	}
	h.metrics.Withheld.Add(float64(len(batch.Items) - len(changes)))
	return nil
}

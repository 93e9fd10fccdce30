package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// heard counts what arrives on presence.deliveries.
type heard struct {
	mu     sync.Mutex
	sent   map[schemas.Version]time.Time
	first  map[schemas.Version]time.Time
	counts map[schemas.Version]int
	came   chan struct{} // filled after each batch
}

func newHeard() *heard {
	return &heard{sent: map[schemas.Version]time.Time{}, first: map[schemas.Version]time.Time{}, counts: map[schemas.Version]int{}, came: make(chan struct{}, 1)}
}

// arrival is what is counted of a delivery record.
type arrival struct {
	version    schemas.Version
	recipients int
}

func decodeHeard(r *schemas.Record) (arrival, error) {
	d, err := schemas.DecodeDelivery(r.Value)
	if err != nil {
		return arrival{}, err
	}
	return arrival{d.Transition.Version, len(d.Recipients)}, nil
}

func (h *heard) expect(v schemas.Version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[v] = time.Now()
}

// Apply counts a batch.
func (h *heard) Apply(_ context.Context, batch stream.Batch[arrival]) error {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range batch.Items {
		if h.counts[a.version] == 0 {
			h.first[a.version] = now
		}
		h.counts[a.version] += a.recipients
	}
	select {
	case h.came <- struct{}{}:
	default:
	}
	return nil
}

func (h *heard) count(v schemas.Version) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[v]
}

// wait waits for the first delivery of v and tells how long it took.
func (h *heard) wait(ctx context.Context, v schemas.Version) (time.Duration, error) {
	deadline := time.NewTimer(loadtest.Timeout)
	defer deadline.Stop()
	for {
		h.mu.Lock()
		took, ok := h.first[v].Sub(h.sent[v]), h.counts[v] > 0
		h.mu.Unlock()
		if ok {
			return took, nil
		}
		select {
		case <-h.came:
		case <-deadline.C:
			return 0, fmt.Errorf("gave up after %s: version %d was not delivered", loadtest.Timeout, v)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

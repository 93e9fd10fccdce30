package main

import (
	"context"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// arrivals counts what arrives on presence.deliveries.
type arrivals struct {
	mu          sync.Mutex
	sent, first map[schemas.Version]time.Time
	counts      map[schemas.Version]int
}

func newArrivals() *arrivals {
	return &arrivals{sent: map[schemas.Version]time.Time{}, first: map[schemas.Version]time.Time{}, counts: map[schemas.Version]int{}}
}

// arrival is what is counted of a delivery record.
type arrival struct {
	version    schemas.Version
	recipients int
}

func decodeArrival(r *schemas.Record) (arrival, error) {
	d, err := schemas.DecodeDelivery(r.Value)
	if err != nil {
		return arrival{}, err
	}
	return arrival{d.Transition.Version, len(d.Recipients)}, nil
}

func (a *arrivals) expect(v schemas.Version) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent[v] = time.Now()
}

// Apply counts a batch.
func (a *arrivals) Apply(_ context.Context, batch stream.Batch[arrival]) error {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, item := range batch.Items {
		if a.counts[item.version] == 0 {
			a.first[item.version] = now
		}
		a.counts[item.version] += item.recipients
	}
	return nil
}

func (a *arrivals) count(v schemas.Version) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[v]
}

// took is how long the first delivery of a version took, false if none has come.
func (a *arrivals) took(v schemas.Version) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first[v].Sub(a.sent[v]), a.counts[v] > 0
}

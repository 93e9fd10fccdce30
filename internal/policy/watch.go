package policy

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// The time between two look-ups of the policy in force. A new pipeline has none until its first
// detector has committed, and its sockets should learn it soon.
const (
	WatchInterval = 30 * time.Second
	firstInterval = time.Second
	// lookSpread spreads the looks of all processes, for the sake of the brokers.
	lookSpread = 2 * time.Second
)

// nextLook returns the time from now to the next look. All processes look at the same instants of the
// clock, whenever they started: so they disagree about a new policy for lookSpread, not for an interval.
func nextLook(now time.Time) time.Duration {
	return now.Truncate(WatchInterval).Add(WatchInterval).Sub(now) + rand.N(lookSpread)
}

// Watch looks up which policies are in force, as InForce does, and passes the result to found, again
// and again until ctx ends. known says whether the caller knows one already.
func Watch(ctx context.Context, cluster kafka.Config, known bool, found func([]Partition, error)) {
	for failed := false; ; {
		wait := firstInterval
		if known || failed {
			wait = nextLook(time.Now())
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, WatchInterval)
		all, err := InForce(bounded, cluster)
		cancel()
		if ctx.Err() != nil {
			return
		}
		known, failed = known || len(all) > 0, err != nil
		found(all, err)
	}
}

package policy

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// The time between two look-ups of the policy in force. A new pipeline has none until its first
// detector has committed, and its sockets should learn it soon.
const (
	WatchInterval = 30 * time.Second
	firstInterval = time.Second
)

// Watch looks up which policies are in force, as InForce does, and passes the result to found, again
// and again until ctx ends. known says whether the caller knows one already.
func Watch(ctx context.Context, cluster kafka.Config, known bool, found func([]Partition, error)) {
	for failed := false; ; {
		wait := firstInterval
		if known || failed {
			wait = WatchInterval
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

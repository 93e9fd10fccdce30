// Package tick repeats something until a context ends.
package tick

import (
	"context"
	"time"
)

// Now takes a turn at once and then after each interval. A turn that lasts longer skips those that come due meanwhile.
func Now(ctx context.Context, interval time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for yield() {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// Later is Now without the first turn.
func Later(ctx context.Context, interval time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		first := true
		for range Now(ctx, interval) {
			if !first && !yield() {
				return
			}
			first = false
		}
	}
}

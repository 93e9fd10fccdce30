package consumer

import (
	"context"
	"time"
)

// RunWhen returns a function that waits until known returns nil, then calls run.
func RunWhen(known func() error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for known() != nil {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
		return run(ctx)
	}
}

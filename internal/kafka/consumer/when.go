package consumer

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/internal/tick"
)

// RunWhen returns a function that waits until known returns nil, then calls run.
func RunWhen(known func() error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for range tick.Now(ctx, 20*time.Millisecond) {
			if known() == nil {
				return run(ctx)
			}
		}
		return nil
	}
}

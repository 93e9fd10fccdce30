package rebuild

import (
	"context"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/lastseen/redisview"
)

// patience is how long a partition may stay without a mark: a projector looks at
// it every second.
const patience = 30 * time.Second

// marks is what is asked of Redis.
type marks interface {
	Progress(ctx context.Context, partition int32) (redisview.Progress, error)
	Move(ctx context.Context, partition int32, from, to redisview.Progress) (redisview.Progress, error)
}

// Redis has every partition rebuilt by the projector that owns it, one after the
// other, and returns when all are. progress is told how many are.
func Redis(ctx context.Context, view marks, partitions int32, progress func(done, all int32)) error {
	for p := range partitions {
		progress(p, partitions)
		if err := forget(ctx, view, p); err != nil {
			return err
		}
	}
	progress(partitions, partitions)
	return nil
}

// forget takes the partition's mark away and waits for another one.
func forget(ctx context.Context, view marks, p int32) error {
	old, err := view.Progress(ctx, p)
	if err != nil {
		return err
	}
	for !old.Rebuilding && old != (redisview.Progress{}) {
		found, err := view.Move(ctx, p, old, redisview.Progress{})
		if err != nil {
			return err
		}
		if found == (redisview.Progress{}) || found.Epoch != old.Epoch {
			break
		}
		old = found // the projector has moved it
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	begun := time.Now()
	for {
		now, err := view.Progress(ctx, p)
		if err != nil {
			return err
		}
		switch {
		case !now.Rebuilding && now.Epoch > old.Epoch:
			return nil
		case now.Rebuilding:
			begun = time.Now() // somebody is at it
		case time.Since(begun) > patience:
			return fmt.Errorf("partition %d was not taken up within %s: is there a process with the role lastseen? "+
				"Reads of its users are answered by the durable store until there is", p, patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

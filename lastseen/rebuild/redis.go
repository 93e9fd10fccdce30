package rebuild

import (
	"context"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen/redisview"
)

// timeout is how long a partition may stay without progress: a projector checks it every second.
const timeout = 30 * time.Second

// view is what a rebuild needs of redisview.View.
type view interface {
	Progress(ctx context.Context, partition int32) (redisview.Progress, error)
	Move(ctx context.Context, partition int32, from, to redisview.Progress) (redisview.Progress, error)
	Processes(ctx context.Context) ([]redisview.Process, error)
}

// Redis makes the owning projectors rebuild all partitions, one after the other, and waits for them. It
// calls progress with the number of rebuilt partitions. It refuses while a projector waits for a log epoch: without
// the progress nobody would know that Redis has to be replaced.
func Redis(ctx context.Context, view view, partitions int32, progress func(done, all int32)) error {
	processes, err := view.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range processes {
		epoch := int64(p.Totals[redisview.LogEpochAwaited])
		if epoch != 0 && time.Since(p.At.Time()) < redisview.ProcessLifetime {
			return fmt.Errorf("%s %s waits for log epoch %d, because Kafka was restored from a copy older than a store: "+
				"start the detectors with --min-log-epoch as docs/how-to/backup.md says, and Redis is rebuilt then", p.Role, p.Instance, epoch)
		}
	}
	for p := range partitions {
		progress(p, partitions)
		if err := rebuild(ctx, view, p); err != nil {
			return err
		}
	}
	progress(partitions, partitions)
	return nil
}

// rebuild removes the partition's progress and waits for another one.
func rebuild(ctx context.Context, view view, p int32) error {
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
	begun := time.Now()
	for range tick.Now(ctx, 50*time.Millisecond) {
		now, err := view.Progress(ctx, p)
		if err != nil {
			return err
		}
		switch {
		case !now.Rebuilding && now.Epoch > old.Epoch:
			return nil
		case now.Rebuilding:
			begun = time.Now() // a projector rebuilds it
		case time.Since(begun) > timeout:
			return fmt.Errorf("partition %d was not taken up within %s: is there a process with the role lastseen? "+
				"Reads of its users are answered by the durable store until there is", p, timeout)
		}
	}
	return ctx.Err()
}

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// crowd are n users with one phone each. Their ids are like those that most systems
// give: growing, with gaps.
type crowd struct {
	n          int
	partitions int32
}

// frames are one beat of everybody, rows to a frame, users in an order that stays
// the same. No gateway: what is measured is the beats.
func (c crowd) frames(rows int) []schemas.Outgoing { return c.ordered(rows, nil) }

// shuffled is frames with the users in random order.
func (c crowd) shuffled(rows int) []schemas.Outgoing {
	return c.ordered(rows, rand.New(rand.NewPCG(1, 2)))
}

// byPartition are the users.
func (c crowd) byPartition() [][]schemas.UserID {
	users := make([][]schemas.UserID, c.partitions)
	ids := rand.New(rand.NewPCG(3, 4))
	for i := range c.n {
		id := schemas.UserID(i+1)<<22 | schemas.UserID(ids.IntN(1<<22))
		p := schemas.PartitionOf(id, c.partitions)
		users[p] = append(users[p], id)
	}
	return users
}

func (c crowd) ordered(rows int, random *rand.Rand) []schemas.Outgoing {
	users := c.byPartition()
	var outs []schemas.Outgoing
	beats := make([]schemas.Beat, rows)
	for p, all := range users {
		if random != nil {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		for len(all) > 0 {
			n := min(rows, len(all))
			for i, id := range all[:n] {
				beats[i] = schemas.Beat{User: id, Device: 7, Kind: schemas.Mobile, Age: schemas.Millis(i % 100), Idle: schemas.Millis(i * 7919 % 60_000)}
			}
			all = all[n:]
			outs = append(outs, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(p), Value: schemas.AppendFrame(nil, schemas.FrameHead{}, beats[:n])})
		}
	}
	// Partitions take turns, as when gateways write to all of them.
	turns := make([]schemas.Outgoing, 0, len(outs))
	next := make([][]schemas.Outgoing, c.partitions)
	for _, out := range outs {
		next[out.Partition] = append(next[out.Partition], out)
	}
	for len(turns) < len(outs) {
		for p := range next {
			if len(next[p]) > 0 {
				turns, next[p] = append(turns, next[p][0]), next[p][1:]
			}
		}
	}
	return turns
}

// window is how many records may be unacknowledged.
const window = 1000

// write appends records and waits until Kafka has them all.
func (r *rig) write(ctx context.Context, outs []schemas.Outgoing) error {
	var wait sync.WaitGroup
	var failed error
	var once sync.Once
	free := make(chan struct{}, window)
	for i := range outs {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		wait.Add(1)
		r.producer.Append(ctx, outs[i], func(err error) {
			if err != nil {
				once.Do(func() { failed = fmt.Errorf("writing heartbeats: %w", err) })
			}
			<-free
			wait.Done()
		})
		r.o.Progress.Say("  writing heartbeats: %d of %d frames", i, len(outs))
	}
	wait.Wait()
	return failed
}

// writeOver is write with the frames spread evenly over d.
func (r *rig) writeOver(ctx context.Context, outs []schemas.Outgoing, d time.Duration) error {
	if d == 0 {
		return r.write(ctx, outs)
	}
	const step = 50 * time.Millisecond
	begun, written := time.Now(), 0
	for written < len(outs) {
		next := min(len(outs), max(written+1, int(float64(len(outs))*float64(time.Since(begun)+step)/float64(d))))
		if err := r.write(ctx, outs[written:next]); err != nil {
			return err
		}
		written = next
		if err := pause(ctx, time.Until(begun.Add(d*time.Duration(written)/time.Duration(len(outs))))); err != nil {
			return err
		}
	}
	return nil
}

// gather makes everybody online and returns when the detector has committed to it.
// It must be running.
func (r *rig) gather(ctx context.Context, d *runningDetector, frames []schemas.Outgoing) error {
	if err := r.o.until(ctx, func() string { return "waiting for the detector to get its partitions" }, func() bool { return d.ready(r) }); err != nil {
		return err
	}
	if err := r.write(ctx, frames); err != nil {
		return err
	}
	end, err := r.end(ctx)
	if err != nil {
		return err
	}
	return r.o.until(ctx, func() string { return fmt.Sprintf("everybody comes online: %d of %d frames", d.handled(), end) },
		func() bool { return d.handled() >= end })
}

// ready tells whether all partitions run.
func (d *runningDetector) ready(r *rig) bool {
	running := 0
	for _, p := range d.Status() {
		if p.Phase == kafka.Running {
			running++
		}
	}
	return running == int(r.o.Partitions)
}

//go:build synctests

package looptest

import (
	"context"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// finishing is a copier that writes so many records when it is stopped, -1 for any number, and then names them.
type finishing struct {
	*copier
	left int
	took time.Duration
	done bool
}

func (f *finishing) Stop(out *stream.Outbox) (more bool) {
	time.Sleep(f.took)
	f.left--
	out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Snapshots, Partition: f.partition, Value: make([]byte, 100)})
	f.done = f.left == 0
	return !f.done
}

func (f *finishing) Checkpoint() string {
	if !f.done {
		return f.copier.Checkpoint()
	}
	return (&schemas.Checkpoint{LogEpoch: 1, LogTime: f.logTime, TopicID: f.commit.TopicID, Snapshot: schemas.SnapshotName{ID: 7, Next: f.next, Chunks: 1}}).Encode()
}

// stopped lets tasks handle ten records and stops them. It returns how long the stop took.
func stopped(w *world, tasks func(c *copier) processor.Task, meanwhile func()) time.Duration {
	w.Helper()
	cfg := w.cfg
	cfg.InstanceName, cfg.MaxTransactionRecords = "a", 4
	p := w.transform(cfg, tasks)
	ctx, cancel := context.WithCancel(w.Context())
	ended, at := make(chan error, 1), time.Time{}
	go func() {
		err := p.Run(ctx)
		at = time.Now() // whoever waits meanwhile may wait for the session of a, which does not leave the group
		ended <- err
	}()
	w.has("ready", p, 2)
	for range 10 {
		w.beat(0, "x")
		w.beat(1, "y")
	}
	w.until("all copied", 30*time.Second, func() bool { c := w.counts(); return c["x"] == 10 && c["y"] == 10 })
	begun := time.Now()
	cancel()
	meanwhile()
	must.Do(w, <-ended)
	took := at.Sub(begun)
	if c := w.counts(); c["x"] != 10 || c["y"] != 10 {
		w.Errorf("what was handled is not there once: %v", c)
	}
	return took
}

func TestATaskThatIsStoppedNamesInItsLastCommitWhatItWroteInSeveralTransactions(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		stopped(w, func(c *copier) processor.Task { return &finishing{copier: c, left: 11} }, func() {})
		all := w.read(schemas.Snapshots)
		if n := len(all); n != 22 || all[10].Offset < 12 { // markers of transactions take offsets
			w.Errorf("%d records were written, the eleventh at offset %d", n, all[10].Offset)
		}
		for partition := range int32(2) {
			if offset, c := w.commits(partition); c.Snapshot.ID != 7 || c.Snapshot.Next != offset {
				w.Errorf("partition %d: offset %d is committed with %+v", partition, offset, c.Snapshot)
			}
		}
	})
}

// What was handled stays committed, with what the commit named before.
func TestATaskThatDoesNotFinishIsStoppedWithinHalfOfTheTimeForARebalance(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		took := stopped(w, func(c *copier) processor.Task {
			return &finishing{copier: c, left: -1, took: 90 * time.Millisecond}
		}, func() {})
		if limit := w.cfg.WithDefaults().RebalanceTimeout; took < limit/2 || took > limit*6/10 {
			w.Errorf("the stop took %s", took)
		}
		for partition := range int32(2) {
			if offset, c := w.commits(partition); c.Snapshot.ID != 0 || offset < 10 {
				w.Errorf("partition %d: offset %d is committed with %+v", partition, offset, c.Snapshot)
			}
		}
	})
}

func TestATaskThatFailsAtItsStopHarmsNothing(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		stopped(w, func(c *copier) processor.Task {
			if c.partition == 0 {
				return &failsAtStop{c}
			}
			return c
		}, func() {})
		if offset, c := w.commits(0); offset < 10 || c.Snapshot.ID != 0 {
			w.Errorf("offset %d is committed with %+v", offset, c.Snapshot)
		}
	})
}

type failsAtStop struct{ *copier }

func (failsAtStop) Stop(*stream.Outbox) bool { panic("it cannot write a snapshot") }

// A stop lets a rebalance go on that comes while tasks finish.
func TestATaskThatFinishesDelaysNoRebalance(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		took := stopped(w, func(c *copier) processor.Task {
			return &finishing{copier: c, left: -1, took: 90 * time.Millisecond}
		}, func() {
			_, b := w.member("b")
			w.until("the other one has joined", time.Minute, func() bool { return len(b.Status()) > 0 && b.Ready() == nil })
		})
		if took > time.Second {
			w.Errorf("the stop took %s", took)
		}
	})
}

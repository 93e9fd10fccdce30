//go:build synctests

package looptest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// deferrer is a handler that takes everything at once but for what is called held,
// which it keeps in hand until it is let go.
type deferrer struct {
	mu   sync.Mutex
	took []string
	held int64 // its offset; -1 for none
}

var _ consumer.AsyncHandler = (*deferrer)(nil)

type kept struct {
	key    string
	offset int64
}

func decodeKept(r *schemas.Record) (kept, error) { return kept{string(r.Key), r.Offset}, nil }

func (d *deferrer) Apply(_ context.Context, b stream.Batch[kept]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, item := range b.Items {
		d.took = append(d.took, item.key)
		if item.key == "held" {
			d.held = item.offset
		}
	}
	return nil
}

func (d *deferrer) InHand(int32) (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held, d.held >= 0
}

func (d *deferrer) Finish(context.Context, int32) (int64, bool) { return d.InHand(0) }

func (d *deferrer) letGo() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = -1
}

func (d *deferrer) keys() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.took)
}

func TestWhatADeferringHandlerHasInHandIsNotCommittedAndComesAgain(t *testing.T) {
	onEach(t, 1, func(w *world) {
		committed := func() int64 {
			all := must.Get(kafka.Committed(w.Context(), w.cfg, "follower", schemas.Transitions))(w)
			return all[0].Offset
		}
		first := &deferrer{held: -1}
		stop, _ := follow(w, "a", decodeKept, first)
		for _, key := range []string{"before", "held", "behind", "last"} {
			w.put(0, key)
		}
		w.until("all taken", 30*time.Second, func() bool { return len(first.keys()) == 4 })
		w.until("what lies before is committed", 30*time.Second, func() bool { return committed() == 1 })
		w.pass(time.Minute)
		if at := committed(); at != 1 {
			w.Fatalf("%d is committed while 1 is in hand", at)
		}
		stop()
		if at := committed(); at != 1 {
			w.Fatalf("%d is committed at the end while 1 is in hand", at)
		}
		second := &deferrer{held: -1}
		stop, _ = follow(w, "a", decodeKept, second)
		w.until("taken again", 30*time.Second, func() bool { return slices.Equal(second.keys(), []string{"held", "behind", "last"}) })
		second.letGo() // nothing new comes
		w.until("all is committed", 30*time.Second, func() bool { return committed() == 4 })
		stop()
	})
}

// slowly is a deferrer whose Finish takes its time, whatever its context says.
type slowly struct {
	*deferrer
	release chan struct{}
	both    bool // Apply was called while Finish was
	ending  bool
}

func (s *slowly) Apply(ctx context.Context, b stream.Batch[kept]) error {
	s.mu.Lock()
	s.both = s.both || s.ending
	s.mu.Unlock()
	return s.deferrer.Apply(ctx, b)
}

func (s *slowly) Finish(context.Context, int32) (int64, bool) {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	<-s.release
	s.mu.Lock()
	s.ending = false
	s.mu.Unlock()
	return s.InHand(0)
}

func TestAPartitionThatComesBackWaitsUntilItsFormerFeedHasEnded(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		handler := &slowly{deferrer: &deferrer{held: -1}, release: make(chan struct{})}
		stop, f := follow(w, "a", decodeKept, handler)
		w.put(0, "first")
		w.until("taken", 30*time.Second, func() bool { return len(handler.keys()) == 1 })
		f.ReplaceWorker(0, 1)
		w.put(0, "second")
		time.Sleep(time.Second)
		if keys := handler.keys(); len(keys) != 1 {
			w.Errorf("taken while the former feed ends: %v", keys)
		}
		close(handler.release)
		w.until("taken", 30*time.Second, func() bool { return len(handler.keys()) == 2 })
		if handler.both {
			w.Error("the handler was called for two feeds of one partition at the same time")
		}
		stop()
	})
}

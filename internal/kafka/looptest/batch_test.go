//go:build synctests

package looptest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// batcher copies transitions to the deliveries, and is unwell when told to.
type batcher struct {
	copier
	shared *batchers
}

type batchers struct {
	mu     sync.Mutex
	unwell error
	tries  int
}

func (b *batchers) set(unwell error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unwell = unwell
}

func (b *batchers) tried() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries
}

func (b *batcher) Restore(context.Context, stream.Assignment, stream.ReadFunc) error { return nil }
func (b *batcher) Checkpoint() string                                                { return "" }

func (b *batcher) HandleBatch(_ context.Context, records []schemas.Record, out *stream.Outbox) error {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	b.shared.tries++
	for i := range records {
		if string(records[i].Key) == "bad" {
			out.Rejected = append(out.Rejected, stream.Rejected{Record: &records[i], Reason: errors.New("is bad")})
			continue
		}
		out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Deliveries, Partition: b.partition, Key: records[i].Key, Value: records[i].Value})
	}
	return b.shared.unwell
}

func (w *world) batches(name string) (*batchers, *processor.Processor) {
	shared := &batchers{}
	cfg := w.cfg
	cfg.InstanceName = name
	t := processor.New(cfg, "detector", schemas.Transitions, func(partition int32) processor.Task {
		return &batcher{copier{partition: partition}, shared}
	}, w.producer, w.log, w.metrics)
	w.runs("batches "+name, t.Run)
	return shared, t
}

func TestATransformReadsWhatAnotherHasCommittedAndIsReadyBehindItsMarkers(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		aborts, commits := w.transactional("aborts"), w.transactional("commits")
		aborts(schemas.Transitions, "!", kgo.TryAbort)
		commits(schemas.Transitions, "a", kgo.TryCommit)
		commits(schemas.Transitions, "bad", kgo.TryCommit)
		_, transform := w.batches("b")
		w.until("ready", 10*time.Second, func() bool { return transform.Ready() == nil && len(transform.Status()) == 1 })
		commits(schemas.Transitions, "b", kgo.TryCommit)
		aborts(schemas.Transitions, "!", kgo.TryAbort)
		w.until("copied", 5*time.Second, func() bool { return len(w.read(schemas.Deliveries)) == 2 })
		// Longer than a stall may last.
		time.Sleep(time.Minute)
		must.Do(w, transform.Ready())
		if letters := w.read(schemas.DeadLetter); len(letters) != 1 || string(letters[0].Key) != "bad" {
			w.Errorf("dead letters: %v", letters)
		}
		w.noRestarts()
	})
}

func TestABatchIsTriedUntilTheWorldIsWellAndPutsOutOnce(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		shared, transform := w.batches("b")
		w.until("ready", 10*time.Second, func() bool { return transform.Ready() == nil && len(transform.Status()) == 1 })
		shared.set(errors.New("the graph does not answer"))
		w.transactional("commits")(schemas.Transitions, "a", kgo.TryCommit)
		time.Sleep(time.Minute)
		if n := len(w.read(schemas.Deliveries)); n != 0 {
			w.Fatalf("%d were put out", n)
		}
		if tries := shared.tried(); tries < 10 {
			w.Errorf("it was tried %d times in a minute", tries)
		}
		shared.set(nil)
		w.until("copied", 10*time.Second, func() bool { return len(w.read(schemas.Deliveries)) == 1 })
		w.noRestarts()
	})
}

//go:build synctests

package looptest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
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
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- t.Run(ctx) }()
	w.ends = append(w.ends, func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("batches %s: %v", name, err)
		}
	})
	return shared, t
}

func TestATransformReadsWhatAnotherHasCommittedAndIsReadyBehindItsMarkers(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		abort(w)
		commitTransition(w, "a")
		commitTransition(w, "bad")
		_, transform := w.batches("b")
		w.until("ready", 10*time.Second, func() bool { return transform.Ready() == nil && len(transform.Status()) == 1 })
		commitTransition(w, "b")
		abort(w)
		w.until("copied", 5*time.Second, func() bool { return len(w.read(schemas.Deliveries)) == 2 })
		// Longer than a stall may last.
		time.Sleep(time.Minute)
		if err := transform.Ready(); err != nil {
			w.Error(err)
		}
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
		commitTransition(w, "a")
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

// commitTransition writes a record to the transitions in a transaction.
func commitTransition(w *world, key string) {
	w.Helper()
	client, err := kafka.NewClient(w.cfg.WithDefaults(), w.log, kgo.TransactionalID("commits"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.Do(w, err)
	defer client.Close()
	must.Do(w, client.BeginTransaction())
	must.Do(w, client.ProduceSync(w.Context(), &kgo.Record{Topic: "presence.transitions", Key: []byte(key), Value: []byte("v")}).FirstErr())
	must.Do(w, client.EndTransaction(w.Context(), kgo.TryCommit))
}

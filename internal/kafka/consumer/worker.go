package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// worker is one partition of a session. Its goroutine (run) calls the handler.
type worker[T any] struct {
	member.Progress
	*session[T]
	log         *slog.Logger
	ctx         context.Context // of the calls to the handler
	cancel      context.CancelFunc
	stop        chan struct{}          // closed: finish what is in hand
	done        chan struct{}          // closed: the worker has ended
	predecessor <-chan struct{}        // closed: the partition's last worker has ended; nil for none
	begin       chan stream.Assignment // one
	signal      chan struct{}          // there is something in queue or pendingWatermarks

	mu                sync.Mutex
	topic             schemas.TopicID // of the position; zero if unknown
	queue             []*kgo.Record   // bounded by batchesWaiting and what one fetch brings
	paused            bool
	pendingWatermarks []pendingWatermark // ascending

	items []T   // the goroutine's, reused
	read  bool  // the goroutine's: a batch was applied
	epoch int32 // the goroutine's: leader epoch of the record applied last
	// latest is the goroutine's: the latest time of a record, also of those of which the handler got none.
	latest schemas.Millis
	begun  time.Time // the goroutine's: when the last batch began
}

func newWorker[T any](s *session[T], id int32) *worker[T] {
	w := &worker[T]{Progress: member.Progress{ID: id}, session: s, log: s.Log.With("partition", id),
		stop: make(chan struct{}), done: make(chan struct{}),
		begin: make(chan stream.Assignment, 1), signal: make(chan struct{}, 1)}
	w.Phase.Store(kafka.Restoring)
	w.ctx, w.cancel = context.WithCancel(s.Ctx)
	return w
}

// beginAt lets the worker begin at at.Offset. It is called once.
func (w *worker[T]) beginAt(at stream.Assignment) {
	w.mu.Lock()
	w.topic = at.TopicID
	w.mu.Unlock()
	w.begin <- at
}

// matchesTopic reports whether records of a topic can be those that the worker is to read.
func (w *worker[T]) matchesTopic(topic schemas.TopicID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.topic.Differs(topic)
}

func (w *worker[T]) run() {
	defer close(w.done)
	defer w.cancel()
	if w.predecessor != nil {
		<-w.predecessor // its calls to the handler have been cancelled
	}
	async, _ := any(w.consumer.handler).(AsyncHandler)
	inHand := func() (int64, bool) { return 0, false }
	var again <-chan time.Time // to look whether more may be committed
	if async != nil {
		inHand = func() (int64, bool) { return async.InHand(w.ID) }
		ticker := time.NewTicker(w.Config.IdleCommitInterval)
		defer ticker.Stop()
		again = ticker.C
		defer func() { w.markCommit(async.Finish(w.ctx, w.ID)) }()
	}
	select {
	case at := <-w.begin:
		w.Next.Store(at.Offset)
		w.End.Store(at.LogEnd)
		w.Phase.Store(kafka.Running)
	case <-w.stop:
		return
	case <-w.ctx.Done():
		return
	}
	for {
		select {
		case <-w.signal:
		case <-again:
			w.markCommit(inHand())
			continue
		case <-w.stop:
			return
		case <-w.ctx.Done():
			return
		}
		if !w.waitForBatch() {
			return
		}
		if records := w.dequeue(); len(records) > 0 {
			if !w.apply(records) {
				return
			}
			w.markCommit(inHand())
		}
		w.deliverWatermarks()
	}
}

// waitForBatch waits until the next batch may begin; see MinBatchInterval. It is false when the
// worker ends.
func (w *worker[T]) waitForBatch() bool {
	if early := w.consumer.minBatchInterval - time.Since(w.begun); early > 0 && !w.begun.IsZero() {
		timer := time.NewTimer(early)
		defer timer.Stop()
		for over := false; !over && !w.batchFull(); {
			select {
			case <-timer.C:
				over = true
			case <-w.signal:
			case <-w.stop:
				return false
			case <-w.ctx.Done():
				return false
			}
		}
	}
	w.begun = time.Now()
	return true
}

// pause waits between two tries. It is false when the worker ends: it gives up there, not in the
// middle of a try.
func (w *worker[T]) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.stop:
		return false
	case <-w.ctx.Done():
		return false
	}
}

// markCommit lets the client commit what was applied, but nothing from first on if that is in hand.
func (w *worker[T]) markCommit(first int64, inHand bool) {
	if w.WithoutGroup || !w.read || w.ctx.Err() != nil {
		return
	}
	next := w.Next.Load()
	if inHand {
		next = min(next, first)
	}
	w.Client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{w.Name: {w.ID: {Epoch: w.epoch, Offset: next}}})
}

package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/tracing"
	"github.com/stillhere/stillhere/schemas"
)

// worker is one partition of a following.
type worker[T any] struct {
	session     *session[T]
	id          int32
	ctx         context.Context // of the calls to the handler
	cancel      context.CancelFunc
	stop        chan struct{} // closed: finish what is in hand
	done        chan struct{}
	predecessor <-chan struct{} // closed: the partition's former feed has let go of the handler; nil for none
	begin       chan position   // one
	signal      chan struct{}   // something was put below

	mu                sync.Mutex
	topic             schemas.TopicID // of which the position is; zero before that, or when nobody asked
	queue             []*kgo.Record   // waiting; bounded by batchesWaiting and what one fetch brings
	paused            bool
	pendingWatermarks []pendingWatermark // to be reached, ascending

	items []T       // the goroutine's, reused
	read  bool      // the goroutine's: something was applied
	epoch int32     // the goroutine's: of the record applied last
	begun time.Time // the goroutine's: the batch before

	next, end   atomic.Int64
	logTime     atomic.Int64
	watermark   atomic.Int64 // the newest watermark passed on
	started     atomic.Bool
	behindSince atomic.Int64 // see PartitionStatus.BehindSince
}

func newWorker[T any](s *session[T], id int32) *worker[T] {
	f := &worker[T]{session: s, id: id, stop: make(chan struct{}), done: make(chan struct{}), begin: make(chan position, 1), signal: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancel(s.ctx)
	return f
}

// beginAt lets the feed begin. It is called once.
func (w *worker[T]) beginAt(at position) {
	w.mu.Lock()
	w.topic = at.topic
	w.mu.Unlock()
	w.begin <- at
}

// matchesTopic tells whether records of a topic can be those that the feed is to read on.
func (w *worker[T]) matchesTopic(topic schemas.TopicID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.topic.Differs(topic)
}

// batchesWaiting is how many batches of MaxPollRecords wait before a partition is paused.
// What comes after a pause may be late by fetchMaxWait, so an ordinary burst needs none.
const batchesWaiting = 4

// enqueue queues records. When there are enough, the partition is not fetched any
// more until they are taken.
func (w *worker[T]) enqueue(records []*kgo.Record, end int64) {
	if w.started.Load() && w.next.Load() >= w.end.Load() {
		w.behindSince.Store(time.Now().UnixMilli())
	}
	w.end.Store(end)
	w.mu.Lock()
	w.queue = append(w.queue, records...)
	if !w.paused && len(w.queue) >= batchesWaiting*w.session.consumer.cfg.MaxPollRecords {
		// Under the lock, or take might resume first.
		w.paused = true
		w.session.PauseFetchPartitions(map[string][]int32{w.session.topic: {w.id}})
	}
	w.mu.Unlock()
	w.notify()
}

func (w *worker[T]) notify() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// dequeue gives queued records, at most MaxPollRecords. When that was all, the
// partition is fetched again; not before, because what the client has fetched of
// a paused partition it throws away.
func (w *worker[T]) dequeue() []*kgo.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	records := w.queue
	if most := w.session.consumer.cfg.MaxPollRecords; len(records) > most {
		records, w.queue = records[:most:most], records[most:]
		w.notify()
		return records
	}
	w.queue = nil
	if w.paused {
		w.paused = false
		w.session.ResumeFetchPartitions(map[string][]int32{w.session.topic: {w.id}})
	}
	return records
}

func (w *worker[T]) run() {
	defer close(w.done)
	defer w.cancel()
	if w.predecessor != nil {
		<-w.predecessor // its calls to the handler have been cancelled
	}
	deferring, _ := any(w.session.consumer.handler).(AsyncHandler)
	var again <-chan time.Time // to look whether more may be committed
	if deferring != nil {
		ticker := time.NewTicker(w.session.consumer.cfg.IdleCommitInterval)
		defer ticker.Stop()
		again = ticker.C
		defer func() { w.markCommit(deferring.Finish(w.ctx, w.id)) }()
	}
	select {
	case at := <-w.begin:
		w.next.Store(at.first)
		w.end.Store(at.end)
		w.started.Store(true)
	case <-w.stop:
		return
	case <-w.ctx.Done():
		return
	}
	for {
		select {
		case <-w.signal:
		case <-again:
			w.markCommit(deferring.InHand(w.id))
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
			var first int64
			var inHand bool
			if deferring != nil {
				first, inHand = deferring.InHand(w.id)
			}
			w.markCommit(first, inHand)
		}
		w.deliverWatermarks()
	}
}

// waitForBatch waits until the next batch may begin; see Every. It is false when the
// feed ends.
func (w *worker[T]) waitForBatch() bool {
	early := w.session.consumer.options.minBatchInterval - time.Since(w.begun)
	if w.begun.IsZero() || early <= 0 {
		w.begun = time.Now()
		return true
	}
	timer := time.NewTimer(early)
	defer timer.Stop()
	for !w.batchFull() {
		select {
		case <-timer.C:
			w.begun = time.Now()
			return true
		case <-w.signal:
		case <-w.stop:
			return false
		case <-w.ctx.Done():
			return false
		}
	}
	w.begun = time.Now()
	return true
}

// batchFull tells whether as much is queued as goes into one batch, or as there will
// be: a paused partition is fetched again only when nothing is left.
func (w *worker[T]) batchFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused || len(w.queue) >= w.session.consumer.cfg.MaxPollRecords
}

// apply decodes the records and has them applied, trying until it works. It is
// false when that was given up because the feed ends.
func (w *worker[T]) apply(records []*kgo.Record) bool {
	var kept []*kgo.Record
	last := records[len(records)-1]
	for _, r := range records {
		if !r.Attrs.IsControl() && r.Offset >= w.next.Load() {
			kept = append(kept, r)
		}
	}
	for tries := 1; ; tries++ {
		rest, err := w.attempt(kept, last.Offset+1)
		if err == nil {
			break
		}
		kept = rest
		w.session.consumer.metrics.BatchRetried()
		if wantsReset(err) {
			w.session.consumer.log.Error("ALARM: the handler lost records that it had applied", "partition", w.id, "offset", w.next.Load(), "error", err)
			w.resetPosition()
			return false
		}
		w.session.consumer.log.Warn("applying a batch failed; retrying", "partition", w.id, "offset", w.next.Load(), "records", len(kept), "tries", tries, "error", err)
		if !w.pause(kafka.Backoff(tries)) {
			return false
		}
	}
	w.next.Store(last.Offset + 1)
	w.logTime.Store(last.Timestamp.UnixMilli())
	w.session.consumer.metrics.RecordsHandled(len(kept))
	w.session.applied.Store(true)
	w.read, w.epoch = true, last.LeaderEpoch
	return true
}

// markCommit lets be committed what was applied, but nothing from first on when that is in
// hand.
func (w *worker[T]) markCommit(first int64, inHand bool) {
	if w.session.consumer.options.withoutGroup || !w.read || w.ctx.Err() != nil {
		return
	}
	next := w.next.Load()
	if inHand {
		next = min(next, first)
	}
	w.session.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{w.session.topic: {w.id: {Epoch: w.epoch, Offset: next}}})
}

// pause is between two tries: a feed that ends gives up there, not in the
// middle of one.
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

// attempt tries once. When it fails it tells which records are still to be
// applied: not those that it has sent to the dead-letter topic.
func (w *worker[T]) attempt(records []*kgo.Record, next int64) (rest []*kgo.Record, err error) {
	clear(w.items)
	w.items = w.items[:0]
	var record schemas.Record
	for i, r := range records {
		kafka.FromKafka(&record, r, nil)
		var item T
		err := kafka.CatchPanic(func() (err error) { item, err = w.session.consumer.decode(&record); return err })
		switch {
		case err == nil:
			w.items = append(w.items, item)
			rest = append(rest, r)
		case schemas.IsInvalid(err):
			if aside := w.sendToDeadLetter(&record, err); aside != nil {
				return append(rest, records[i:]...), aside
			}
		default:
			return records, fmt.Errorf("decoding offset %d: %w", r.Offset, err)
		}
	}
	if len(w.items) == 0 {
		return rest, nil
	}
	ctx, end := tracing.Span(w.ctx, tracing.Batch{What: "apply", Topic: w.session.topic, Group: w.session.consumer.group, Partition: w.id, Records: len(w.items)})
	defer func() { end(err) }()
	return rest, kafka.CatchPanic(func() error {
		return w.session.consumer.handler.Apply(ctx, stream.Batch[T]{Partition: w.id, Items: w.items, Next: next})
	})
}

// sendToDeadLetter puts a record into the dead letter topic and waits for it to be
// there.
func (w *worker[T]) sendToDeadLetter(record *schemas.Record, reason error) error {
	if w.session.consumer.producer == nil {
		return errors.Join(errors.New("there is no producer for dead letters"), reason)
	}
	letter := kafka.DeadLetter(kafka.DeadLetterOrigin{Topic: w.session.topic, Group: w.session.consumer.group}, record, reason, w.session.consumer.deadLetters)
	if err := w.session.consumer.producer.AppendSync(w.ctx, letter); err != nil {
		return err
	}
	w.session.consumer.metrics.DeadLetterWritten(kafka.ErrorCode(reason))
	w.session.consumer.deadLetterLog.Do(func() {
		w.session.consumer.log.Warn("record sent to the dead-letter topic", "partition", w.id, "offset", record.Offset, "error", reason)
	})
	return nil
}

func (w *worker[T]) status() kafka.PartitionStatus {
	phase := kafka.Restoring
	if w.started.Load() {
		phase = kafka.Running
	}
	return kafka.PartitionStatus{Partition: w.id, Phase: phase, Offset: w.next.Load(), End: w.end.Load(),
		BehindSince: schemas.Millis(w.behindSince.Load()),
		LogTime:     schemas.Millis(w.logTime.Load()), Watermark: schemas.Millis(w.watermark.Load())}
}

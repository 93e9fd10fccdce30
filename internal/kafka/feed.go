package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/tracing"
	"github.com/stillhere/stillhere/schemas"
)

// feed is one partition of a following.
type feed[T any] struct {
	s      *following[T]
	id     int32
	ctx    context.Context // of the calls to the handler
	cancel context.CancelFunc
	stop   chan struct{} // closed: finish what is in hand
	done   chan struct{}
	after  <-chan struct{} // closed: the partition's former feed has let go of the handler; nil for none
	begin  chan position   // one
	signal chan struct{}   // something was put below

	mu     sync.Mutex
	topic  schemas.TopicID // of which the position is; zero before that, or when nobody asked
	queue  []*kgo.Record   // waiting; bounded by batchesWaiting and what one fetch brings
	paused bool
	marks  []mark // to be reached, ascending

	items []T       // the goroutine's, reused
	read  bool      // the goroutine's: something was applied
	epoch int32     // the goroutine's: of the record applied last
	begun time.Time // the goroutine's: the batch before

	next, end atomic.Int64
	logTime   atomic.Int64
	marked    atomic.Int64 // the newest watermark passed on
	started   atomic.Bool
	behind    atomic.Int64 // see PartitionStatus.BehindSince
}

func newFeed[T any](s *following[T], id int32) *feed[T] {
	f := &feed[T]{s: s, id: id, stop: make(chan struct{}), done: make(chan struct{}), begin: make(chan position, 1), signal: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancel(s.ctx)
	return f
}

// beginAt lets the feed begin. It is called once.
func (f *feed[T]) beginAt(at position) {
	f.mu.Lock()
	f.topic = at.topic
	f.mu.Unlock()
	f.begin <- at
}

// isOf tells whether records of a topic can be those that the feed is to read on.
func (f *feed[T]) isOf(topic schemas.TopicID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.topic.Differs(topic)
}

// batchesWaiting is how many batches of MaxPollRecords wait before a partition is paused.
// What comes after a pause may be late by fetchMaxWait, so an ordinary burst needs none.
const batchesWaiting = 4

// give queues records. When there are enough, the partition is not fetched any
// more until they are taken.
func (f *feed[T]) give(records []*kgo.Record, end int64) {
	if f.started.Load() && f.next.Load() >= f.end.Load() {
		f.behind.Store(time.Now().UnixMilli())
	}
	f.end.Store(end)
	f.mu.Lock()
	f.queue = append(f.queue, records...)
	if !f.paused && len(f.queue) >= batchesWaiting*f.s.f.cfg.MaxPollRecords {
		// Under the lock, or take might resume first.
		f.paused = true
		f.s.PauseFetchPartitions(map[string][]int32{f.s.name: {f.id}})
	}
	f.mu.Unlock()
	f.notify()
}

func (f *feed[T]) notify() {
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

// take gives queued records, at most MaxPollRecords. When that was all, the
// partition is fetched again; not before, because what the client has fetched of
// a paused partition it throws away.
func (f *feed[T]) take() []*kgo.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	records := f.queue
	if most := f.s.f.cfg.MaxPollRecords; len(records) > most {
		records, f.queue = records[:most:most], records[most:]
		f.notify()
		return records
	}
	f.queue = nil
	if f.paused {
		f.paused = false
		f.s.ResumeFetchPartitions(map[string][]int32{f.s.name: {f.id}})
	}
	return records
}

func (f *feed[T]) run() {
	defer close(f.done)
	defer f.cancel()
	if f.after != nil {
		<-f.after // its calls to the handler have been cancelled
	}
	deferring, _ := any(f.s.f.handler).(Deferring)
	var again <-chan time.Time // to look whether more may be committed
	if deferring != nil {
		ticker := time.NewTicker(f.s.f.cfg.IdleCommitInterval)
		defer ticker.Stop()
		again = ticker.C
		defer func() { f.mark(deferring.Finish(f.ctx, f.id)) }()
	}
	select {
	case at := <-f.begin:
		f.next.Store(at.first)
		f.end.Store(at.end)
		f.started.Store(true)
	case <-f.stop:
		return
	case <-f.ctx.Done():
		return
	}
	for {
		select {
		case <-f.signal:
		case <-again:
			f.mark(deferring.InHand(f.id))
			continue
		case <-f.stop:
			return
		case <-f.ctx.Done():
			return
		}
		if !f.gather() {
			return
		}
		if records := f.take(); len(records) > 0 {
			if !f.apply(records) {
				return
			}
			var first int64
			var inHand bool
			if deferring != nil {
				first, inHand = deferring.InHand(f.id)
			}
			f.mark(first, inHand)
		}
		f.reachMarks()
	}
}

// gather waits until the next batch may begin; see Every. It is false when the
// feed ends.
func (f *feed[T]) gather() bool {
	early := f.s.f.options.every - time.Since(f.begun)
	if f.begun.IsZero() || early <= 0 {
		f.begun = time.Now()
		return true
	}
	timer := time.NewTimer(early)
	defer timer.Stop()
	for !f.full() {
		select {
		case <-timer.C:
			f.begun = time.Now()
			return true
		case <-f.signal:
		case <-f.stop:
			return false
		case <-f.ctx.Done():
			return false
		}
	}
	f.begun = time.Now()
	return true
}

// full tells whether as much is queued as goes into one batch, or as there will
// be: a paused partition is fetched again only when nothing is left.
func (f *feed[T]) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused || len(f.queue) >= f.s.f.cfg.MaxPollRecords
}

// apply decodes the records and has them applied, trying until it works. It is
// false when that was given up because the feed ends.
func (f *feed[T]) apply(records []*kgo.Record) bool {
	var kept []*kgo.Record
	last := records[len(records)-1]
	for _, r := range records {
		if !r.Attrs.IsControl() && r.Offset >= f.next.Load() {
			kept = append(kept, r)
		}
	}
	for tries := 1; ; tries++ {
		rest, err := f.attempt(kept, last.Offset+1)
		if err == nil {
			break
		}
		kept = rest
		f.s.f.metrics.retry()
		if wantsAnew(err) {
			f.s.f.log.Error("ALARM: what was applied has been lost", "partition", f.id, "offset", f.next.Load(), "error", err)
			f.anew()
			return false
		}
		f.s.f.log.Warn("applying a batch; trying again", "partition", f.id, "offset", f.next.Load(), "records", len(kept), "tries", tries, "error", err)
		if !f.pause(backoff(tries)) {
			return false
		}
	}
	f.next.Store(last.Offset + 1)
	f.logTime.Store(last.Timestamp.UnixMilli())
	f.s.f.metrics.handled(len(kept))
	f.s.applied.Store(true)
	f.read, f.epoch = true, last.LeaderEpoch
	return true
}

// mark lets be committed what was applied, but nothing from first on when that is in
// hand.
func (f *feed[T]) mark(first int64, inHand bool) {
	if f.s.f.options.alone || !f.read || f.ctx.Err() != nil {
		return
	}
	next := f.next.Load()
	if inHand {
		next = min(next, first)
	}
	f.s.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{f.s.name: {f.id: {Epoch: f.epoch, Offset: next}}})
}

// pause is between two tries: a feed that ends gives up there, not in the
// middle of one.
func (f *feed[T]) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.stop:
		return false
	case <-f.ctx.Done():
		return false
	}
}

// attempt tries once. When it fails it tells which records are still to be
// applied: not those that it has set aside.
func (f *feed[T]) attempt(records []*kgo.Record, next int64) (rest []*kgo.Record, err error) {
	clear(f.items)
	f.items = f.items[:0]
	var record schemas.Record
	for i, r := range records {
		fill(&record, r, nil)
		var item T
		err := guarded(func() (err error) { item, err = f.s.f.decode(&record); return err })
		switch {
		case err == nil:
			f.items = append(f.items, item)
			rest = append(rest, r)
		case schemas.IsInvalid(err):
			if aside := f.setAside(&record, err); aside != nil {
				return append(rest, records[i:]...), aside
			}
		default:
			return records, fmt.Errorf("decoding offset %d: %w", r.Offset, err)
		}
	}
	if len(f.items) == 0 {
		return rest, nil
	}
	ctx, end := tracing.Span(f.ctx, tracing.Batch{What: "apply", Topic: f.s.name, Group: f.s.f.group, Partition: f.id, Records: len(f.items)})
	defer func() { end(err) }()
	return rest, guarded(func() error {
		return f.s.f.handler.Apply(ctx, schemas.Batch[T]{Partition: f.id, Items: f.items, Next: next})
	})
}

// setAside puts a record into the dead letter topic and waits for it to be
// there.
func (f *feed[T]) setAside(record *schemas.Record, reason error) error {
	if f.s.f.producer == nil {
		return errors.Join(errors.New("there is no producer for dead letters"), reason)
	}
	letter := deadLetter(origin{f.s.name, f.s.f.group}, record, reason, f.s.f.deadLetters)
	if err := f.s.f.producer.AppendSync(f.ctx, letter); err != nil {
		return err
	}
	f.s.f.metrics.deadLetter(errorCode(reason))
	f.s.f.aside.Do(func() {
		f.s.f.log.Warn("record set aside", "partition", f.id, "offset", record.Offset, "error", reason)
	})
	return nil
}

func (f *feed[T]) status() PartitionStatus {
	phase := Restoring
	if f.started.Load() {
		phase = Running
	}
	return PartitionStatus{Partition: f.id, Phase: phase, Offset: f.next.Load(), End: f.end.Load(),
		BehindSince: schemas.Millis(f.behind.Load()),
		LogTime:     schemas.Millis(f.logTime.Load()), Watermark: schemas.Millis(f.marked.Load())}
}

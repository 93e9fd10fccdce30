package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/schemas"
)

// partition is an assigned partition. Its goroutine (run) owns the task and what
// is marked so.
type partition struct {
	s      *session
	id     int32
	ctx    context.Context
	cancel context.CancelFunc

	begin   chan beginning // one, from onPositions
	work    chan portion   // from the loop, only when it has the last result
	results chan handled   // to the loop

	began   beginning        // goroutine's until it restores, the loop's after that
	task    Task             // goroutine's
	record  schemas.Record   // goroutine's, reused
	headers []schemas.Header // goroutine's, reused
	outbox  schemas.Outbox   // goroutine's while it handles, the loop's otherwise

	done       int64     // loop's: the offset after what was sent last
	checkpoint string    // loop's: of the same
	dirty      bool      // loop's: handled, not committed
	halfway    bool      // loop's: more is to come of the record at done
	due        time.Time // loop's: see Waiting
	kept       int64     // loop's: see Waiting; where keeps
	keeps      bool      // loop's
	handledAny bool      // loop's
	fetching   bool      // loop's: restored and resumed; what comes before that is not for its task

	phase     atomicPhase
	next, end atomic.Int64 // next is the goroutine's to change
	logTime   atomic.Int64
	behind    atomic.Int64 // see PartitionStatus.BehindSince
	progress  atomic.Int64 // Unix nanoseconds of the last sign of life
	handling  atomic.Int64 // offset of the record that the task has in hand, -1 for none

	asksOthers atomic.Bool // it is a BatchTask
	ticking    atomic.Bool // a tick is on its way
}

// beginning is where a partition starts. failures are those that its task had
// just before, in a row.
type beginning struct {
	commit   schemas.Commit
	first    int64
	owners   []owner // as in the metadata of the commit, when the partition came to us
	failures int
}

// portion is what a partition is given to do: to go on with the record that has more
// to put out, if there is one, then to handle these, until it has put out as much as
// room says or has been at it for long enough.
type portion struct {
	records []*kgo.Record
	room    room
}

// handled is what came of a portion. out belongs to the loop until it hands over
// the next one.
type handled struct {
	out        *schemas.Outbox
	next       int64 // the offset to be committed with it ...
	checkpoint string
	records    int
	parts      int           // records and slices that something was put out for
	rest       []*kgo.Record // what there was no room for
	halfway    bool          // the record at next has more to put out
	due        time.Time     // see Waiting
	kept       int64
	keeps      bool
	err        error
}

func newPartition(s *session, id int32) *partition {
	p := &partition{s: s, id: id, begin: make(chan beginning, 1), work: make(chan portion, 1), results: make(chan handled, 1)}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	p.phase.Store(Restoring)
	p.handling.Store(-1)
	p.touch()
	return p
}

// committable is the offset that may be committed once everything handled is written.
func (p *partition) committable() int64 {
	if p.keeps {
		return min(p.done, p.kept)
	}
	return p.done
}

func (p *partition) String() string { return fmt.Sprintf("%s/%d", p.s.name, p.id) }

// touch is a sign of life for the watchdog.
func (p *partition) touch() { p.progress.Store(time.Now().UnixNano()) }

func (p *partition) run() {
	defer p.cancel()
	defer p.release()
	select {
	case p.began = <-p.begin:
	case <-p.ctx.Done():
		return
	}
	if !p.comeBack() {
		return
	}
	for {
		select {
		case portion := <-p.work:
			p.results <- p.handle(portion)
		case <-p.ctx.Done():
			return
		}
	}
}

// restore builds a new task's state and lets the loop resume fetching. An error
// that is not the task's own (errTask) has been dealt with.
func (p *partition) restore(b beginning) error {
	begun := time.Now()
	p.touch()
	crashpoint.At("restore.begun")
	var worldErr error
	read := func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
		var own error
		err := p.s.t.reader.Read(ctx, topic, p.id, from, to, topic != schemas.Heartbeats, func(r *schemas.Record) error {
			p.touch()
			crashpoint.At("restore.reading")
			if own = ctx.Err(); own == nil {
				own = each(r)
			}
			return own
		})
		if err == nil && b.commit.Offset < 0 {
			err = p.stillWithoutCommit(ctx)
		}
		if err != nil && own == nil {
			worldErr = err
		}
		return err
	}
	p.release()
	err := guarded(func() error {
		p.task = p.s.t.newTask(p.id)
		return p.task.Restore(p.ctx, b.commit, read)
	})
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case err != nil && worldErr != nil:
		p.s.fail(broken("restore", "restoring %s: %w", p, err))
		return err
	case err != nil:
		return fmt.Errorf("restoring %s at offset %d: %w: %w", p, b.commit.Offset, errTask, err)
	}
	crashpoint.At("restore.done")
	first := b.first
	if task, ok := p.task.(PlacedTask); ok {
		first = task.Next()
	}
	p.next.Store(first)
	p.end.Store(b.commit.LogEnd)
	p.touch()
	p.phase.Store(Running)
	took := time.Since(begun)
	p.s.t.metrics.restored(took.Seconds())
	p.s.t.log.Info("partition restored", "partition", p.id, "offset", first, "took", took)
	p.s.mu.Lock()
	p.s.restored = append(p.s.restored, p)
	p.s.mu.Unlock()
	p.s.wake()
	return nil
}

// release is the end of the task.
func (p *partition) release() {
	task, ok := p.task.(ClosedTask)
	p.task = nil
	if !ok {
		return
	}
	if err := guarded(func() error { task.Close(); return nil }); err != nil {
		p.s.t.log.Error("closing a task", "partition", p.id, "error", err)
	}
}

// handle gives the records to the task, one by one, until there is no more room for
// what it puts out.
func (p *partition) handle(work portion) handled {
	if task, ok := p.task.(BatchTask); ok {
		return p.handleBatch(task, work)
	}
	p.emptyOutbox()
	task, sliced := p.task.(SlicedTask)
	next := p.next.Load()
	result := handled{out: &p.outbox, rest: work.records}
	enough := time.Now().Add(p.s.t.cfg.StallTimeout / 10)
	defer p.handling.Store(-1)
	result.err = guarded(func() error {
		for {
			if sliced && task.Pending() {
				result.halfway = true
				if work.room.full() {
					break
				}
				p.handling.Store(next)
				p.touch()
				crashpoint.At("slice")
				if err := task.Continue(&p.outbox); err != nil {
					return err
				}
				p.setAside(next)
				work.room.take(&p.outbox)
				continue
			}
			if result.halfway {
				next, result.halfway = next+1, false
			}
			// What is done must be committed before a stall can be suspected.
			if len(result.rest) == 0 || work.room.full() || result.records > 0 && time.Now().After(enough) {
				break
			}
			from := result.rest[0]
			result.rest = result.rest[1:]
			if from.Offset < next {
				continue // handled in an earlier life of this log or session
			}
			if from.Offset > next && p.s.t.input == schemas.Heartbeats {
				p.s.t.metrics.gap()
				p.s.t.log.Error("records are missing", "partition", p.id, "from", next, "to", from.Offset)
			}
			next = from.Offset
			if from.Attrs.IsControl() {
				next++
				continue
			}
			p.headers = fill(&p.record, from, p.headers)
			p.handling.Store(next)
			p.touch()
			crashpoint.At("handle")
			if err := p.task.Handle(&p.record, &p.outbox); err != nil {
				return err
			}
			p.setAside(from.Offset)
			work.room.take(&p.outbox)
			result.records++
			if !sliced || !task.Pending() {
				next = from.Offset + 1
			}
		}
		result.checkpoint = p.task.Checkpoint()
		return nil
	})
	if result.err != nil {
		p.s.t.taskFailed(p.id, next)
		result.err = fmt.Errorf("handling %s offset %d: %w", p, next, result.err)
		return result
	}
	result.next, result.parts = next, work.room.parts
	p.next.Store(next)
	if result.records > 0 {
		p.logTime.Store(int64(p.record.Time))
	}
	return result
}

// emptyOutbox keeps the outbox's memory for the next records, but not that of a
// storm.
func (p *partition) emptyOutbox() {
	if n := len(p.outbox.Records); cap(p.outbox.Records) > 1<<14 && n < cap(p.outbox.Records)/8 {
		p.outbox.Records = nil
	}
	clear(p.outbox.Records)
	p.outbox.Records, p.outbox.Forwards = p.outbox.Records[:0], p.outbox.Forwards[:0]
}

// setAside makes dead letters of what the task rejected, before the record that
// it points to is used for the next one.
func (p *partition) setAside(offset int64) {
	for _, r := range p.outbox.Rejected {
		record := r.Record
		if record == nil || record == &p.record {
			copied := p.record
			copied.Headers = slices.Clone(p.record.Headers)
			record = &copied
		}
		origin := origin{topic: p.s.name, group: p.s.t.group}
		if r.Topic != "" {
			origin.topic = r.Topic.Name(p.s.t.cfg.Prefix)
		}
		p.outbox.Records = append(p.outbox.Records, deadLetter(origin, record, r.Reason, p.s.deadLetters))
		p.s.t.metrics.deadLetter(errorCode(r.Reason))
		p.s.t.aside.Do(func() {
			p.s.t.log.Warn("record set aside", "partition", p.id, "offset", offset, "error", r.Reason)
		})
	}
	p.outbox.Rejected = p.outbox.Rejected[:0]
}

func (p *partition) status() PartitionStatus {
	at := schemas.Millis(p.logTime.Load())
	return PartitionStatus{Partition: p.id, Phase: p.phase.Load(), Offset: p.next.Load(), End: p.end.Load(),
		BehindSince: schemas.Millis(p.behind.Load()), LogTime: at, Watermark: at}
}

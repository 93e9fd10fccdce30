package processor

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor/owners"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// partition is an assigned partition. Its goroutine (run) owns the task and what
// is marked so.
type partition struct {
	s      *session
	id     int32
	ctx    context.Context
	cancel context.CancelFunc

	begin   chan startPoint   // one, from onPositions
	work    chan workItem     // from the loop, only when it has the last result
	results chan handleResult // to the loop

	startedAt startPoint       // goroutine's until it restores, the loop's after that
	task      Task             // goroutine's
	record    schemas.Record   // goroutine's, reused
	headers   []schemas.Header // goroutine's, reused
	outbox    stream.Outbox    // goroutine's while it handles, the loop's otherwise

	done       int64     // loop's: the offset after what was sent last
	checkpoint string    // loop's: of the same
	dirty      bool      // loop's: handled, not committed
	midRecord  bool      // loop's: more is to come of the record at done
	due        time.Time // loop's: see Waiting
	retained   int64     // loop's: see Waiting; where keeps
	retains    bool      // loop's
	handledAny bool      // loop's
	fetching   bool      // loop's: restored and resumed; what comes before that is not for its task

	phase       kafka.AtomicPhase
	next, end   atomic.Int64 // next is the goroutine's to change
	logTime     atomic.Int64
	behindSince atomic.Int64 // see PartitionStatus.BehindSince
	progress    atomic.Int64 // Unix nanoseconds of the last sign of life
	handling    atomic.Int64 // offset of the record that the task has in hand, -1 for none

	callsServers atomic.Bool // it is a BatchTask
	ticking      atomic.Bool // a tick is on its way
}

// startPoint is where a partition starts. failures are those that its task had
// just before, in a row.
type startPoint struct {
	commit   stream.Assignment
	first    int64
	owners   []owners.Owner // as in the metadata of the commit, when the partition came to us
	failures int
}

// workItem is what a partition is given to do: to go on with the record that has more
// to put out, if there is one, then to handle these, until it has put out as much as
// room says or has been at it for long enough.
type workItem struct {
	records []*kgo.Record
	budget  budget
}

// handleResult is what came of a portion. out belongs to the loop until it hands over
// the next one.
type handleResult struct {
	out        *stream.Outbox
	next       int64 // the offset to be committed with it ...
	checkpoint string
	records    int
	parts      int           // records and slices that something was put out for
	rest       []*kgo.Record // what there was no room for
	midRecord  bool          // the record at next has more to put out
	due        time.Time     // see Waiting
	retained   int64
	retains    bool
	err        error
}

func newPartition(s *session, id int32) *partition {
	p := &partition{s: s, id: id, begin: make(chan startPoint, 1), work: make(chan workItem, 1), results: make(chan handleResult, 1)}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	p.phase.Store(kafka.Restoring)
	p.handling.Store(-1)
	p.noteProgress()
	return p
}

// committable is the offset that may be committed once everything handled is written.
func (p *partition) committable() int64 {
	if p.retains {
		return min(p.done, p.retained)
	}
	return p.done
}

func (p *partition) String() string { return fmt.Sprintf("%s/%d", p.s.name, p.id) }

// noteProgress is a sign of life for the watchdog.
func (p *partition) noteProgress() { p.progress.Store(time.Now().UnixNano()) }

func (p *partition) run() {
	defer p.cancel()
	defer p.release()
	select {
	case p.startedAt = <-p.begin:
	case <-p.ctx.Done():
		return
	}
	if !p.restoreWithRetries() {
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
func (p *partition) restore(b startPoint) error {
	begun := time.Now()
	p.noteProgress()
	crashpoint.At("restore.begun")
	var worldErr error
	read := func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
		var own error
		err := p.s.proc.reader.Read(ctx, topic, p.id, from, to, topic != schemas.Heartbeats, func(r *schemas.Record) error {
			p.noteProgress()
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
	err := kafka.CatchPanic(func() error {
		p.task = p.s.proc.newTask(p.id)
		return p.task.Restore(p.ctx, b.commit, read)
	})
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case err != nil && worldErr != nil:
		p.s.fail(kafka.SessionErrorf("restore", "restoring %s: %w", p, err))
		return err
	case err != nil:
		return fmt.Errorf("restoring %s at offset %d: %w: %w", p, b.commit.Offset, errTask, err)
	}
	crashpoint.At("restore.done")
	first := b.first
	if task, ok := p.task.(PositionedTask); ok {
		first = task.Next()
	}
	p.next.Store(first)
	p.end.Store(b.commit.LogEnd)
	p.noteProgress()
	p.phase.Store(kafka.Running)
	took := time.Since(begun)
	p.s.proc.metrics.PartitionRestored(took.Seconds())
	p.s.proc.log.Info("partition restored", "partition", p.id, "offset", first, "took", took)
	p.s.mu.Lock()
	p.s.toResume = append(p.s.toResume, p)
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
	if err := kafka.CatchPanic(func() error { task.Close(); return nil }); err != nil {
		p.s.proc.log.Error("closing a task failed", "partition", p.id, "error", err)
	}
}

// handle gives the records to the task, one by one, until there is no more room for
// what it puts out.
func (p *partition) handle(work workItem) handleResult {
	if task, ok := p.task.(BatchTask); ok {
		return p.handleBatch(task, work)
	}
	p.resetOutbox()
	task, sliced := p.task.(SlicedTask)
	next := p.next.Load()
	result := handleResult{out: &p.outbox, rest: work.records}
	enough := time.Now().Add(p.s.proc.cfg.StallTimeout / 10)
	defer p.handling.Store(-1)
	result.err = kafka.CatchPanic(func() error {
		for {
			if sliced && task.Pending() {
				result.midRecord = true
				if work.budget.exhausted() {
					break
				}
				p.handling.Store(next)
				p.noteProgress()
				crashpoint.At("slice")
				if err := task.Continue(&p.outbox); err != nil {
					return err
				}
				p.emitDeadLetters(next)
				work.budget.spend(&p.outbox)
				continue
			}
			if result.midRecord {
				next, result.midRecord = next+1, false
			}
			// What is done must be committed before a stall can be suspected.
			if len(result.rest) == 0 || work.budget.exhausted() || result.records > 0 && time.Now().After(enough) {
				break
			}
			from := result.rest[0]
			result.rest = result.rest[1:]
			if from.Offset < next {
				continue // handled in an earlier life of this log or session
			}
			if from.Offset > next && p.s.proc.input == schemas.Heartbeats {
				p.s.proc.metrics.GapFound()
				p.s.proc.log.Error("records are missing", "partition", p.id, "from", next, "to", from.Offset)
			}
			next = from.Offset
			if from.Attrs.IsControl() {
				next++
				continue
			}
			p.headers = kafka.FromKafka(&p.record, from, p.headers)
			p.handling.Store(next)
			p.noteProgress()
			crashpoint.At("handle")
			if err := p.task.Handle(&p.record, &p.outbox); err != nil {
				return err
			}
			p.emitDeadLetters(from.Offset)
			work.budget.spend(&p.outbox)
			result.records++
			if !sliced || !task.Pending() {
				next = from.Offset + 1
			}
		}
		result.checkpoint = p.task.Checkpoint()
		return nil
	})
	if result.err != nil {
		p.s.proc.taskFailed(p.id, next)
		result.err = fmt.Errorf("handling %s offset %d: %w", p, next, result.err)
		return result
	}
	result.next, result.parts = next, work.budget.parts
	p.next.Store(next)
	if result.records > 0 {
		p.logTime.Store(int64(p.record.Time))
	}
	return result
}

// resetOutbox keeps the outbox's memory for the next records, but not that of a
// storm.
func (p *partition) resetOutbox() {
	if n := len(p.outbox.Records); cap(p.outbox.Records) > 1<<14 && n < cap(p.outbox.Records)/8 {
		p.outbox.Records = nil
	}
	clear(p.outbox.Records)
	p.outbox.Records, p.outbox.Forwards = p.outbox.Records[:0], p.outbox.Forwards[:0]
}

// emitDeadLetters makes dead letters of what the task rejected, before the record that
// it points to is used for the next one.
func (p *partition) emitDeadLetters(offset int64) {
	for _, r := range p.outbox.Rejected {
		record := r.Record
		if record == nil || record == &p.record {
			copied := p.record
			copied.Headers = slices.Clone(p.record.Headers)
			record = &copied
		}
		origin := kafka.DeadLetterOrigin{Topic: p.s.name, Group: p.s.proc.group}
		if r.Topic != "" {
			origin.Topic = r.Topic.Name(p.s.proc.cfg.Prefix)
		}
		p.outbox.Records = append(p.outbox.Records, kafka.DeadLetter(origin, record, r.Reason, p.s.deadLetters))
		p.s.proc.metrics.DeadLetterWritten(kafka.ErrorCode(r.Reason))
		p.s.proc.deadLetterLog.Do(func() {
			p.s.proc.log.Warn("record sent to the dead-letter topic", "partition", p.id, "offset", offset, "error", r.Reason)
		})
	}
	p.outbox.Rejected = p.outbox.Rejected[:0]
}

func (p *partition) status() kafka.PartitionStatus {
	at := schemas.Millis(p.logTime.Load())
	return kafka.PartitionStatus{Partition: p.id, Phase: p.phase.Load(), Offset: p.next.Load(), End: p.end.Load(),
		BehindSince: schemas.Millis(p.behindSince.Load()), LogTime: at, Watermark: at}
}

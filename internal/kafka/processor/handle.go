package processor

import (
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// stepRecords is how many records without output are handled between two looks at the clock.
const stepRecords = 64

// handle gives the records to the task, one by one, until the budget for their output is exhausted.
func (p *partition) handle(work workItem) handleResult {
	if task, ok := p.task.(BatchTask); ok {
		return p.handleBatch(task, work)
	}
	p.resetOutbox()
	next := p.Next.Load()
	result := handleResult{out: &p.outbox, rest: work.records}
	enough, looked := time.Now().Add(p.s.Config.StallTimeout/10), 0
	defer p.handling.Store(-1)
	result.err = kafka.CatchPanic(func() error {
		// The handled records must be committed before the watchdog suspects a stall.
		for len(result.rest) > 0 && !work.budget.exhausted() {
			// A record without output is quick: many of them are one step.
			if parts := work.budget.parts; result.records%stepRecords == 0 || parts != looked {
				now := time.Now()
				p.progress.Store(now.UnixNano())
				if looked = parts; result.records > 0 && now.After(enough) {
					break
				}
			}
			from := result.rest[0]
			result.rest = result.rest[1:]
			if from.Offset < next {
				continue // handled before a restart
			}
			if from.Offset > next && p.s.Topic == schemas.Heartbeats {
				p.s.Metrics.GapFound()
				p.log.Error("records are missing", "from", next, "to", from.Offset)
			}
			next = from.Offset
			if from.Attrs.IsControl() {
				next++
				continue
			}
			p.headers = kafka.FromKafka(&p.record, from, p.headers)
			p.handling.Store(next)
			crashpoint.At("handle")
			if err := p.task.Handle(&p.record, &p.outbox); err != nil {
				return err
			}
			p.emitDeadLetters(next)
			work.budget.spend(&p.outbox)
			result.records++
			next++
		}
		result.checkpoint = p.task.Checkpoint()
		return nil
	})
	if result.err != nil {
		p.s.proc.failures.task(p.ID, next)
		result.err = fmt.Errorf("handling %s offset %d: %w", p, next, result.err)
		return result
	}
	result.next, result.parts = next, work.budget.parts
	p.Next.Store(next)
	if result.records > 0 {
		p.handledUpTo(int64(p.record.Time))
	}
	task, ok := p.task.(TickedTask)
	if !ok {
		p.ticks.handled(next, true, time.Time{})
		return result
	}
	due := task.DueIn()
	p.ticks.handled(next, task.KeepsUp(), time.Now().Add(due))
	if due == 0 {
		p.appendTick()
	}
	return result
}

// resetOutbox reuses the outbox's memory for the next records, unless it has become far too large.
func (p *partition) resetOutbox() {
	if n := len(p.outbox.Records); cap(p.outbox.Records) > 1<<14 && n < cap(p.outbox.Records)/8 {
		p.outbox.Records = nil
	}
	clear(p.outbox.Records)
	p.outbox = stream.Outbox{
		Records: p.outbox.Records[:0], Forwards: p.outbox.Forwards[:0], Rejected: p.outbox.Rejected[:0],
		Hints: p.outbox.Hints[:0],
	}
}

// emitDeadLetters makes dead letters of the records that the task rejected, before p.record, which
// they may point to, is reused.
func (p *partition) emitDeadLetters(offset int64) {
	for _, r := range p.outbox.Rejected {
		record := r.Record
		if record == nil || record == &p.record {
			copied := p.record
			copied.Headers = slices.Clone(p.record.Headers)
			record = &copied
		}
		topic := p.s.Name
		if r.Topic != "" {
			topic = r.Topic.Name(p.s.Config.Prefix)
		}
		p.outbox.Records = append(p.outbox.Records, p.s.DeadLetter(topic, record, r.Reason))
		p.s.CountDeadLetter(p.ID, offset, r.Reason)
	}
	p.outbox.Rejected = p.outbox.Rejected[:0]
}

package processor

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// errSessionEnding ends a session between two retries of a batch; no task is at fault.
var errSessionEnding = errors.New("given up")

// handleBatch gives the records to the task together. Without records the task is due.
func (p *partition) handleBatch(task BatchTask, work workItem) handleResult {
	// The size of their output is known only afterwards: on slow brokers the batch is smaller.
	n := min(max(p.s.Config.MaxPollRecords>>p.s.proc.limitShift.Load(), 1), len(work.records))
	from, rest := work.records[:n], work.records[n:]
	next := p.Next.Load()
	var last *kgo.Record // that was not handled before
	records := make([]schemas.Record, 0, len(from))
	for _, r := range from {
		if r.Offset < next || last != nil && r.Offset <= last.Offset {
			continue // after an aborted transaction, records may come again
		}
		if last = r; !r.Attrs.IsControl() {
			records = append(records, schemas.Record{})
			kafka.FromKafka(&records[len(records)-1], r, nil)
		}
	}
	defer p.handling.Store(-1)
	result := handleResult{handled: handled{next: next}, out: &p.outbox,
		records: len(records), parts: len(records), rest: rest}
	for tries := 1; ; tries++ {
		p.resetOutbox()
		if len(records) == 0 && len(from) > 0 {
			break
		}
		p.callsServers.Store(true)
		p.handling.Store(next)
		var failed error
		panicked := kafka.CatchPanic(func() error {
			failed = task.HandleBatch(p.ctx, records, &p.outbox)
			return nil
		})
		if panicked != nil {
			p.s.proc.failures.task(p.ID, next)
			result.err = kafka.SessionErrorf("task", "handling %s offset %d: %w", p, next, panicked)
			return result
		}
		if failed == nil {
			break
		}
		p.s.Metrics.BatchRetried()
		p.log.Warn("handling a batch failed; retrying",
			"offset", next, "records", len(records), "tries", tries, "error", failed)
		p.noteProgress()
		if !kafka.Pause(p.ctx, kafka.Backoff(tries)) || p.s.Failure() != nil || p.s.stopping.Load() {
			result.err = kafka.SessionErrorf("unwell", "handling %s offset %d: %w", p, next,
				errors.Join(errSessionEnding, failed))
			return result
		}
	}
	result.checkpoint = task.Checkpoint()
	if retaining, ok := task.(RetainingTask); ok {
		result.due = retaining.Due()
		result.retained, result.retains = retaining.Retained()
	}
	if last != nil {
		p.emitDeadLetters(last.Offset)
		result.next = last.Offset + 1
		p.Next.Store(result.next)
		p.handledUpTo(last.Timestamp.UnixMilli())
	}
	return result
}

// dueAt is when the task wants to be called without records; zero for never. The loop calls it.
func (p *partition) dueAt() time.Time {
	if !p.fetching || p.Phase.Load() != kafka.Running {
		return time.Time{}
	}
	return p.handled.due
}

// addDueTasks adds the partitions whose tasks are due to those that got records.
func (s *session) addDueTasks() {
	if !s.tasksDue {
		return
	}
	now := time.Now()
	for _, p := range s.Parts() {
		due := p.dueAt()
		if due.IsZero() || due.After(now) || slices.ContainsFunc(s.batches, func(b batch) bool { return b.part == p }) {
			continue
		}
		s.batches = append(s.batches, batch{part: p})
	}
}

// untilTaskDue is how long a poll may take before a task is due.
func (s *session) untilTaskDue() time.Duration {
	wait := idlePoll
	if !s.tasksDue {
		return wait
	}
	for _, p := range s.Parts() {
		if due := p.dueAt(); !due.IsZero() {
			wait = min(wait, max(time.Until(due), backlogPoll))
		}
	}
	return wait
}

package processor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// BatchTask is a Task that takes what one poll brought for its partition at once:
// because a later record may make an earlier one pointless, or because it asks
// servers besides Kafka.
type BatchTask interface {
	Task
	// HandleBatch is called in place of Handle, with records in order, valid until
	// it returns. An error means that the world is unwell: what was put in out is
	// dropped, and the same records come again after a pause, until it works or the
	// partition goes. A panic means that the program is wrong. Rejected records must
	// name theirs. The other partitions of the process wait meanwhile, so ctx should
	// be heeded, and a batch be the matter of a second at most.
	HandleBatch(ctx context.Context, records []schemas.Record, out *stream.Outbox) error
}

// RetainingTask is a BatchTask that keeps some records back for a while.
type RetainingTask interface {
	BatchTask
	// Due is when HandleBatch is to be called without records, should none come before;
	// zero: never. Asked after each call of HandleBatch.
	Due() time.Time
	// Retained is the offset of the first record that is kept back. The offset that is
	// committed does not go past it, so that it comes again after a restart, and what is
	// behind it does too: Checkpoint must say what of that was handled.
	Retained() (first int64, any bool)
}

// errSessionEnding ends a session in the middle of tries; it is nobody's fault.
var errSessionEnding = errors.New("given up")

// handleBatch gives the records to the task together. Without records the task is due.
func (p *partition) handleBatch(task BatchTask, work workItem) handleResult {
	// What they lead to is known afterwards only: on slow brokers it is fewer at once.
	n := min(max(p.s.proc.cfg.MaxPollRecords>>p.s.proc.limitShift.Load(), 1), len(work.records))
	from, rest := work.records[:n], work.records[n:]
	next := p.next.Load()
	records := make([]schemas.Record, 0, len(from))
	for _, r := range from {
		if r.Offset >= next && !r.Attrs.IsControl() {
			records = append(records, schemas.Record{})
			kafka.FromKafka(&records[len(records)-1], r, nil)
		}
	}
	defer p.handling.Store(-1)
	result := handleResult{out: &p.outbox, next: next, records: len(records), parts: len(records), rest: rest}
	var last *kgo.Record
	if len(from) > 0 {
		last = from[len(from)-1]
	}
	for tries := 1; ; tries++ {
		p.resetOutbox()
		p.outbox.Rejected = p.outbox.Rejected[:0]
		if len(records) == 0 && last != nil {
			break
		}
		p.callsServers.Store(true)
		p.handling.Store(next)
		var unwell error
		failed := kafka.CatchPanic(func() error { unwell = task.HandleBatch(p.ctx, records, &p.outbox); return nil })
		if failed != nil {
			p.s.proc.taskFailed(p.id, next)
			result.err = kafka.SessionErrorf("task", "handling %s offset %d: %w", p, next, failed)
			return result
		}
		if unwell == nil {
			break
		}
		p.s.proc.metrics.BatchRetried()
		p.s.proc.log.Warn("handling a batch failed; retrying", "partition", p.id, "offset", next, "records", len(records), "tries", tries, "error", unwell)
		if !p.waitToRetry(kafka.Backoff(tries)) {
			result.err = kafka.SessionErrorf("unwell", "handling %s offset %d: %w", p, next, errors.Join(errSessionEnding, unwell))
			return result
		}
	}
	result.checkpoint = task.Checkpoint()
	if waiting, ok := task.(RetainingTask); ok {
		result.due = waiting.Due()
		result.retained, result.retains = waiting.Retained()
	}
	if last != nil {
		p.emitDeadLetters(last.Offset)
		result.next = max(next, last.Offset+1)
		p.next.Store(result.next)
		p.logTime.Store(last.Timestamp.UnixMilli())
	}
	return result
}

// dueAt is when the task wants to be called without records; zero for never. The loop
// calls it.
func (p *partition) dueAt() time.Time {
	if !p.fetching || p.phase.Load() != kafka.Running {
		return time.Time{}
	}
	return p.due
}

// addDueTasks adds the partitions whose tasks are due to those that got records.
func (s *session) addDueTasks() {
	if !s.tasksDue {
		return
	}
	now := time.Now()
	for _, p := range s.assigned() {
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
	for _, p := range s.assigned() {
		if due := p.dueAt(); !due.IsZero() {
			wait = min(wait, max(time.Until(due), 0))
		}
	}
	return wait
}

// waitToRetry waits, and is false when the session is to end.
func (p *partition) waitToRetry(wait time.Duration) bool {
	p.noteProgress()
	return kafka.Pause(p.ctx, wait) && p.s.failure() == nil && !p.s.stopping.Load()
}

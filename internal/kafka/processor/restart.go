package processor

import (
	"errors"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// A task that fails takes down its own partition and no other: what it had
// handled is committed with everything else, then the partition comes back
// from there, after a pause that grows, until it is parked.

// failPartition takes note, in the loop, that the task of p cannot go on. What it put
// out for the batch at which it failed is dropped.
func (s *session) failPartition(p *partition, err error) {
	s.proc.log.Error("a task failed; its partition is restored, the others go on", "partition", p.id, "error", err)
	p.fetching = false
	p.phase.Store(kafka.Restoring)
	s.PauseFetchPartitions(map[string][]int32{s.name: {p.id}})
	s.failedParts = append(s.failedParts, p)
}

// restartFailed puts new partitions in place of those that were set back. Nothing may be
// pending: they begin at what is committed.
func (s *session) restartFailed() {
	for _, old := range s.failedParts {
		if s.part(old.id) != old {
			continue // it went in the meantime
		}
		old.cancel()
		p := newPartition(s, old.id)
		p.begin <- old.resumePoint()
		s.mu.Lock()
		s.parts[p.id] = p
		s.mu.Unlock()
		s.work.Go(p.run)
	}
	clear(s.failedParts)
	s.failedParts = s.failedParts[:0]
}

// resumePoint is where the partition goes on once everything it handled is committed.
func (p *partition) resumePoint() startPoint {
	b := p.startedAt
	if p.handledAny {
		b.commit.Offset, b.commit.Metadata, b.first = p.committable(), p.checkpoint, p.committable()
	}
	b.failures = p.s.proc.failuresOf(p.id)
	return b
}

// restoreWithRetries restores the partition, with a new task for every time that one fails.
// It is false when the partition cannot be used: it went, the session ends, or
// it is parked.
func (p *partition) restoreWithRetries() bool {
	for b := p.startedAt; ; {
		if b.failures > 0 {
			if p.s.proc.parked(p.id) {
				p.next.Store(b.first)
				p.phase.Store(kafka.Parked)
				return false
			}
			if !p.waitBeforeRestore(&b) {
				return false
			}
		}
		p.startedAt = b
		err := p.restore(b)
		if !errors.Is(err, errTask) {
			return err == nil
		}
		p.s.proc.log.Error("a task failed while it was being restored", "partition", p.id, "error", err)
		b.failures = p.s.proc.taskFailed(p.id, -1)
	}
}

// waitBeforeRestore pauses before another try and looks where the log begins and ends now.
func (p *partition) waitBeforeRestore(b *startPoint) bool {
	if !kafka.Pause(p.ctx, taskBackoff(b.failures)) {
		return false
	}
	var err error
	if b.commit.LogStart, b.commit.LogEnd, err = p.s.proc.reader.Bounds(p.ctx, p.s.proc.input, p.id); err != nil {
		if p.ctx.Err() == nil {
			p.s.fail(kafka.SessionErrorf("restore", "restoring %s: %w", p, err))
		}
		return false
	}
	b.first = p.s.firstOffset(b.commit)
	return true
}

// taskBackoff is how long to wait after so many failures of a task in a row.
func taskBackoff(failures int) time.Duration { return kafka.Backoff(2*failures + 1) }

// errTask marks errors of a task, as opposed to those of the world around it.
var errTask = errors.New("the task failed")

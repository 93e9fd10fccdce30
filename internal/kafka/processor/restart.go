package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// A task that fails takes its own partition only: what it had handled is committed with the work of
// the others, then the partition restarts from that commit, after a pause that grows, until it is
// parked.

// errTask marks errors of a task, as opposed to those of Kafka.
var errTask = errors.New("the task failed")

// failPartition records, in the loop, that the task of p cannot go on. Its output for the records
// in hand is dropped.
func (s *session) failPartition(p *partition, err error) {
	p.log.Error("a task failed; its partition is restored, the others go on", "error", err)
	p.fetching = false
	p.Phase.Store(kafka.Restoring)
	s.Client.PauseFetchPartitions(s.Only(p.ID))
	s.failedParts = append(s.failedParts, p)
}

// restartFailed replaces the partitions that failed. Nothing may be pending: they start from what
// is committed.
func (s *session) restartFailed() {
	for _, old := range s.failedParts {
		if s.Part(old.ID) != old {
			continue // revoked meanwhile
		}
		old.cancel()
		p := newPartition(s, old.ID)
		p.begin <- old.resumePoint()
		s.Set(p.ID, p)
		s.Work.Go(p.run)
	}
	clear(s.failedParts)
	s.failedParts = s.failedParts[:0]
}

// resumePoint is where the partition restarts once everything that it handled is committed.
func (p *partition) resumePoint() startPoint {
	b := p.startedAt
	if p.handledAny {
		b.first = p.handled.committable()
		b.commit.Offset, b.commit.Metadata = b.first, p.handled.checkpoint
	}
	b.failures, _ = p.s.proc.failures.of(p.ID)
	return b
}

// restoreWithRetries restores the partition, with a new task after each failure. It is false when
// the partition cannot be used: it was revoked, the session ends, or it is parked.
func (p *partition) restoreWithRetries() bool {
	for b := p.startedAt; ; {
		if b.failures > 0 {
			if _, parked := p.s.proc.failures.of(p.ID); parked {
				p.Next.Store(b.first)
				p.Phase.Store(kafka.Parked)
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
		p.log.Error("a task failed while it was being restored", "error", err)
		b.failures = p.s.proc.failures.task(p.ID, -1)
	}
}

// waitBeforeRestore pauses and asks again for the bounds of the log.
func (p *partition) waitBeforeRestore(b *startPoint) bool {
	if !kafka.Pause(p.ctx, kafka.Backoff(2*b.failures+1)) {
		return false
	}
	var err error
	if b.commit.LogStart, b.commit.LogEnd, err = p.s.Reader.Bounds(p.ctx, p.s.Topic, p.ID); err != nil {
		if p.ctx.Err() == nil {
			p.s.Fail(kafka.SessionErrorf("restore", "restoring %s: %w", p, err))
		}
		return false
	}
	b.first = p.s.firstOffset(b.commit)
	return true
}

// restore builds a new task's state and lets the loop resume fetching. Of its errors, those that
// are not errTask have been handled.
func (p *partition) restore(b startPoint) error {
	begun := time.Now()
	p.noteProgress()
	crashpoint.At("restore.begun")
	var kafkaErr error
	read := func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
		var own error
		err := p.s.Reader.Read(ctx, topic, p.ID, from, to, topic != schemas.Heartbeats, func(r *schemas.Record) error {
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
			kafkaErr = err
		}
		return err
	}
	p.release()
	err := kafka.CatchPanic(func() error {
		p.task = p.s.proc.newTask(p.ID)
		if _, ok := p.task.(BatchTask); ok {
			p.s.proc.batches.Store(true)
		}
		return p.task.Restore(p.ctx, b.commit, read)
	})
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case err != nil && kafkaErr != nil:
		p.s.Fail(kafka.SessionErrorf("restore", "restoring %s: %w", p, err))
		return err
	case err != nil:
		return fmt.Errorf("restoring %s at offset %d: %w: %w", p, b.commit.Offset, errTask, err)
	}
	crashpoint.At("restore.done")
	first := b.first
	if task, ok := p.task.(PositionedTask); ok {
		first = task.Next()
	}
	p.Next.Store(first)
	p.End.Store(b.commit.LogEnd)
	p.noteProgress()
	p.Phase.Store(kafka.Running)
	took := time.Since(begun)
	p.s.Metrics.PartitionRestored(took.Seconds())
	p.log.Info("partition restored", "offset", first, "took", took)
	p.s.restoredMu.Lock()
	p.s.restored = append(p.s.restored, p)
	p.s.restoredMu.Unlock()
	p.s.Wake()
	return nil
}

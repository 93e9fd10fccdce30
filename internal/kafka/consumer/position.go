package consumer

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// onAdjustOffsets returns where reading starts in the partitions just assigned, and lets their
// workers begin.
func (s *session[T]) onAdjustOffsets(ctx context.Context, offsets member.Offsets) (member.Offsets, error) {
	for id, offset := range offsets[s.Name] {
		at, err := s.position(ctx, id, offset.EpochOffset().Offset)
		if err != nil {
			return nil, err
		}
		offsets[s.Name][id] = kgo.NewOffset().At(at.Offset)
		if w := s.Part(id); w != nil {
			w.beginAt(at)
		}
	}
	return offsets, nil
}

// startAll starts a worker for every partition; for WithoutGroup.
func (s *session[T]) startAll(ctx context.Context, count int32) (map[int32]kgo.Offset, error) {
	offsets, positions := map[int32]kgo.Offset{}, map[int32]stream.Assignment{}
	for id := range count {
		at, err := s.position(ctx, id, -1)
		if err != nil {
			return nil, err
		}
		offsets[id], positions[id] = kgo.NewOffset().At(at.Offset), at
	}
	for id, at := range positions {
		s.start(id).beginAt(at)
	}
	return offsets, nil
}

// position returns the partition with the offset to start at, given what the group has committed
// (negative for nothing). Its topic is known only if the handler was asked.
func (s *session[T]) position(ctx context.Context, id int32, committed int64) (at stream.Assignment, err error) {
	handler, ok := s.consumer.handler.(PositionedHandler)
	if !ok {
		at = stream.Assignment{Partition: id, Offset: committed}
		if at.LogStart, at.LogEnd, err = s.Reader.Bounds(ctx, s.Topic, id); err == nil {
			at.Offset = s.firstOffset(at, schemas.TopicID{})
		}
		return at, err
	}
	for {
		before, err := s.Reader.DescribePartition(ctx, s.Topic, id)
		if err != nil {
			return at, err
		}
		before.Offset = committed
		stored, err := s.askStart(ctx, handler, before)
		if err != nil {
			return at, err
		}
		// Again, because the previous owner may have gone on meanwhile.
		if at, err = s.Reader.DescribePartition(ctx, s.Topic, id); err != nil {
			return at, err
		}
		if at.TopicID != before.TopicID {
			continue // the handler was asked about a topic that was deleted
		}
		at.Offset = committed
		if stored.Next >= 0 {
			at.Offset = stored.Next
		}
		at.Offset = s.firstOffset(at, stored.Topic)
		if at.Offset == stored.Next && stored.Latest > 0 {
			err = s.checkSameLog(ctx, &at, stored.Latest)
		}
		return at, err
	}
}

// checkSameLog moves at to the start of the log if a record before at.Offset is later than latest: the log
// is a restored copy that has grown since.
func (s *session[T]) checkSameLog(ctx context.Context, at *stream.Assignment, latest schemas.Millis) error {
	from, err := s.Reader.OffsetSince(ctx, s.Topic, at.Partition, latest+1)
	if err != nil || from >= at.Offset {
		return err
	}
	later := schemas.Millis(0)
	err = s.Reader.Read(ctx, s.Topic, at.Partition, from, at.Offset, true, func(r *schemas.Record) error {
		later = max(later, r.Time)
		return nil
	})
	if err != nil || later <= latest {
		return err
	}
	s.Metrics.GapFound()
	s.Log.Error("ALARM: the log is another one than before the stored offset; continuing from its start", "partition", at.Partition,
		"stored", at.Offset, "start", at.LogStart, "end", at.LogEnd, "latest_stored", latest, "latest_found", later)
	at.Offset = at.LogStart
	return nil
}

func (s *session[T]) firstOffset(at stream.Assignment, of schemas.TopicID) int64 {
	if at.Offset < 0 && s.consumer.fromEnd && !of.Differs(at.TopicID) {
		return at.LogEnd
	}
	return s.FirstOffset(at, of)
}

// askStart calls Start until it succeeds.
func (s *session[T]) askStart(ctx context.Context, handler PositionedHandler, at stream.Assignment) (
	stream.StoredOffset, error) {
	for tries := 1; ; tries++ {
		stored, err := handler.Start(ctx, at)
		if err == nil {
			return stored, nil
		}
		s.Log.Warn("asking the handler for its position failed; it is retried", "partition", at.Partition, "error", err)
		if !kafka.Pause(ctx, kafka.Backoff(tries)) {
			return stored, ctx.Err()
		}
	}
}

// positionResetter is an error of a PositionedHandler's Apply: a retry is useless, because its
// store has lost what it had applied. Only reading again from the position that Start returns helps.
type positionResetter interface{ ResetPosition() bool }

func wantsReset(err error) bool {
	var wanted positionResetter
	return errors.As(err, &wanted) && wanted.ResetPosition()
}

// positionReset is a worker that is to be replaced by one that starts at a position.
type positionReset[T any] struct {
	worker *worker[T]
	at     stream.Assignment
}

// resetPosition asks the handler where to start and leaves the rest to the loop: only between two
// polls can it be sure that no records from beyond that position are on their way. The worker ends
// with this.
func (w *worker[T]) resetPosition() {
	at, err := w.position(w.ctx, w.ID, -1)
	if err != nil {
		if w.ctx.Err() == nil {
			w.log.Error("asking the handler where to restart a partition failed; the consumer restarts", "error", err)
			w.Fail(kafka.SessionErrorf("reset", "%w", err))
		}
		return
	}
	w.log.Warn("the partition restarts from the position that its handler gave",
		"offset", at.Offset, "before", w.Next.Load())
	w.session.mu.Lock()
	w.resets = append(w.resets, positionReset[T]{w, at})
	w.session.mu.Unlock()
	w.Wake()
}

// resetsWait reports whether workers wait to be replaced.
func (s *session[T]) resetsWait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.resets) > 0
}

// applyResets replaces the workers that wait for it. The loop calls it between a poll and
// AllowRebalance, so that no partition comes or goes meanwhile.
func (s *session[T]) applyResets() {
	s.mu.Lock()
	resets := s.resets
	s.resets = nil
	s.mu.Unlock()
	for _, r := range resets {
		id := r.worker.ID
		if s.Part(id) != r.worker {
			continue // the partition was revoked
		}
		s.Seek(id, r.at.Offset)
		s.Client.ResumeFetchPartitions(s.Only(id))
		s.start(id).beginAt(r.at)
	}
}

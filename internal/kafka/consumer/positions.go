package consumer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// onAdjustOffsets says where reading starts in the partitions just given.
func (s *session[T]) onAdjustOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for id, offset := range offsets[s.topic] {
		at, err := s.position(ctx, id, offset.EpochOffset().Offset)
		if err != nil {
			return nil, err
		}
		offsets[s.topic][id] = kgo.NewOffset().At(at.first)
		if feed := s.worker(id); feed != nil {
			feed.beginAt(at)
		}
	}
	return offsets, nil
}

// startAll starts a feed for every partition; for Alone.
func (s *session[T]) startAll(ctx context.Context, count int32) (map[int32]kgo.Offset, error) {
	offsets, positions := map[int32]kgo.Offset{}, map[int32]position{}
	for id := range count {
		at, err := s.position(ctx, id, -1)
		if err != nil {
			return nil, err
		}
		offsets[id], positions[id] = kgo.NewOffset().At(at.first), at
	}
	for id, at := range positions {
		s.start(id).beginAt(at)
	}
	return offsets, nil
}

// position is the first offset to be read, and the end of the log by then.
type position struct {
	first, end int64
	// topic is the one of which they are offsets, if anybody asked.
	topic schemas.TopicID
}

// position is where to start, given what the group has committed (negative for
// nothing).
func (s *session[T]) position(ctx context.Context, id int32, committed int64) (position, error) {
	starter, ok := s.consumer.handler.(PositionedHandler)
	if !ok {
		start, end, err := s.consumer.reader.Bounds(ctx, s.consumer.topic, id)
		return s.clampToLog(id, committed, position{start, end, schemas.TopicID{}}), err
	}
	for {
		before, err := s.consumer.reader.DescribePartition(ctx, s.consumer.topic, id)
		if err != nil {
			return position{}, err
		}
		before.Offset = committed
		kept, err := s.askStart(ctx, starter, before)
		if err != nil {
			return position{}, err
		}
		// Again, because whoever had the partition before may have gone on meanwhile.
		now, err := s.consumer.reader.DescribePartition(ctx, s.consumer.topic, id)
		if err != nil {
			return position{}, err
		}
		log := position{now.LogStart, now.LogEnd, now.TopicID}
		switch {
		case now.TopicID != before.TopicID:
			continue // the handler was told of a topic that is gone
		case kept.Topic.Differs(now.TopicID):
			s.consumer.metrics.GapFound()
			s.consumer.log.Error("ALARM: the topic was deleted and recreated; reading from its start", "partition", id,
				"topic", now.TopicID, "before", kept.Topic, "start", now.LogStart, "end", now.LogEnd)
			return log, nil
		case kept.Next >= 0:
			return s.clampToLog(id, kept.Next, log), nil
		}
		return s.clampToLog(id, committed, log), nil
	}
}

// askStart asks the handler until it answers.
func (s *session[T]) askStart(ctx context.Context, starter PositionedHandler, at stream.Assignment) (stream.StoredOffset, error) {
	for tries := 1; ; tries++ {
		kept, err := starter.Start(ctx, at)
		if err == nil {
			return kept, nil
		}
		s.consumer.log.Warn("asking where to start", "partition", at.Partition, "error", err)
		if !kafka.Pause(ctx, kafka.Backoff(tries)) {
			return kept, ctx.Err()
		}
	}
}

// clampToLog is where to go on from an offset (negative for none) in a log, given as a
// position at its start.
func (s *session[T]) clampToLog(id int32, next int64, log position) position {
	at := log
	switch {
	case next < 0 && s.consumer.options.fromEnd:
		at.first = log.end
	case next < 0:
	case next < log.first || next > log.end:
		s.consumer.metrics.GapFound()
		s.consumer.log.Error("ALARM: the stored offset is no longer in the log; reading from the start",
			"partition", id, "offset", next, "start", log.first, "end", log.end)
	default:
		at.first = next
	}
	return at
}

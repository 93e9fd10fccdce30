package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/schemas"
)

// onPositions says where reading starts in the partitions just given.
func (s *following[T]) onPositions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for id, offset := range offsets[s.name] {
		at, err := s.position(ctx, id, offset.EpochOffset().Offset)
		if err != nil {
			return nil, err
		}
		offsets[s.name][id] = kgo.NewOffset().At(at.first)
		if feed := s.feed(id); feed != nil {
			feed.beginAt(at)
		}
	}
	return offsets, nil
}

// allPositions starts a feed for every partition; for Alone.
func (s *following[T]) allPositions(ctx context.Context, count int32) (map[int32]kgo.Offset, error) {
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
func (s *following[T]) position(ctx context.Context, id int32, committed int64) (position, error) {
	starter, ok := s.f.handler.(Starter)
	if !ok {
		start, end, err := s.f.reader.Bounds(ctx, s.f.topic, id)
		return s.within(id, committed, position{start, end, schemas.TopicID{}}), err
	}
	for {
		before, err := s.f.reader.look(ctx, s.f.topic, id)
		if err != nil {
			return position{}, err
		}
		before.Offset = committed
		kept, err := s.startOf(ctx, starter, before)
		if err != nil {
			return position{}, err
		}
		// Again, because whoever had the partition before may have gone on meanwhile.
		now, err := s.f.reader.look(ctx, s.f.topic, id)
		if err != nil {
			return position{}, err
		}
		log := position{now.LogStart, now.LogEnd, now.TopicID}
		switch {
		case now.TopicID != before.TopicID:
			continue // the handler was told of a topic that is gone
		case kept.Topic.Differs(now.TopicID):
			s.f.metrics.gap()
			s.f.log.Error("ALARM: the topic was deleted and made anew; going on from its start", "partition", id,
				"topic", now.TopicID, "before", kept.Topic, "start", now.LogStart, "end", now.LogEnd)
			return log, nil
		case kept.Next >= 0:
			return s.within(id, kept.Next, log), nil
		}
		return s.within(id, committed, log), nil
	}
}

// startOf asks the handler until it answers.
func (s *following[T]) startOf(ctx context.Context, starter Starter, at schemas.Commit) (schemas.Kept, error) {
	for tries := 1; ; tries++ {
		kept, err := starter.Start(ctx, at)
		if err == nil {
			return kept, nil
		}
		s.f.log.Warn("asking where to start", "partition", at.Partition, "error", err)
		if !pause(ctx, backoff(tries)) {
			return kept, ctx.Err()
		}
	}
}

// within is where to go on from an offset (negative for none) in a log, given as a
// position at its start.
func (s *following[T]) within(id int32, next int64, log position) position {
	at := log
	switch {
	case next < 0 && s.f.options.fromEnd:
		at.first = log.end
	case next < 0:
	case next < log.first || next > log.end:
		s.f.metrics.gap()
		s.f.log.Error("ALARM: the offset to go on from is not in the log any more; going on from the start",
			"partition", id, "offset", next, "start", log.first, "end", log.end)
	default:
		at.first = next
	}
	return at
}

package stream

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
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
			feed.begin <- at
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
		s.start(id).begin <- at
	}
	return offsets, nil
}

// position is the first offset to be read, and the end of the log by then.
type position struct{ first, end int64 }

// position is where to start, given what the group has committed (negative for
// nothing).
func (s *following[T]) position(ctx context.Context, id int32, committed int64) (position, error) {
	next := committed
	if starter, ok := s.f.handler.(Starter); ok {
		for tries := 1; ; tries++ {
			kept, err := starter.Start(ctx, id)
			if err == nil {
				if kept >= 0 {
					next = kept
				}
				break
			}
			s.f.log.Warn("asking where to start", "partition", id, "error", err)
			if !pause(ctx, backoff(tries)) {
				return position{}, ctx.Err()
			}
		}
	}
	start, end, err := s.f.reader.Bounds(ctx, s.f.topic, id)
	switch {
	case err != nil:
		return position{}, err
	case next < 0 && s.f.options.fromEnd:
		return position{end, end}, nil
	case next < 0:
		return position{start, end}, nil
	case next < start || next > end:
		s.f.metrics.gap()
		s.f.log.Error("ALARM: the offset to go on from is not in the log any more; going on from the start",
			"partition", id, "offset", next, "start", start, "end", end)
		return position{start, end}, nil
	}
	return position{next, end}, nil
}

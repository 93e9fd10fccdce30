package consumer

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
)

// positionResetter is an error of a Starter's Apply by which it says that trying again
// is no use: only reading again from where Start says now helps, as when its
// store has lost what it had taken.
type positionResetter interface{ ResetPosition() bool }

func wantsReset(err error) bool {
	var wanted positionResetter
	return errors.As(err, &wanted) && wanted.ResetPosition()
}

// positionReset is a feed that is to be replaced by one that starts at a position.
type positionReset[T any] struct {
	worker *worker[T]
	at     position
}

// resetPosition asks the handler where to start now and leaves the rest to the loop: only
// between two polls is it sure that nothing from beyond that position is on its
// way. The feed ends with this.
func (w *worker[T]) resetPosition() {
	at, err := w.session.position(w.ctx, w.id, -1)
	if err != nil {
		if w.ctx.Err() == nil {
			w.session.consumer.log.Error("asking the handler where to restart a partition; the consumer restarts", "partition", w.id, "error", err)
			w.session.failSession(err)
		}
		return
	}
	w.session.consumer.log.Warn("the partition restarts from the position that its handler gave", "partition", w.id, "offset", at.first, "before", w.next.Load())
	w.session.mu.Lock()
	w.session.resets = append(w.session.resets, positionReset[T]{w, at})
	w.session.mu.Unlock()
	w.session.wake()
}

// failSession ends the following, which begins again with all its partitions.
func (s *session[T]) failSession(err error) {
	s.mu.Lock()
	s.failed = kafka.SessionErrorf("reset", "%w", err)
	s.mu.Unlock()
	s.wake()
}

// wake ends the poll under way.
func (s *session[T]) wake() {
	if cancel := s.wakeup.Load(); cancel != nil {
		(*cancel)()
	}
}

// poll waits for records, until stop ends or somebody wakes the loop.
func (s *session[T]) poll(stop context.Context) kgo.Fetches {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	s.wakeup.Store(&cancel)
	s.mu.Lock()
	waiting := len(s.resets) > 0 || s.failed != nil
	s.mu.Unlock()
	if waiting {
		cancel()
	}
	return s.PollFetches(ctx)
}

// applyResets replaces the feeds that asked for it. It is called by the loop between a
// poll and AllowRebalance, so that no partition comes or goes meanwhile.
func (s *session[T]) applyResets() error {
	s.mu.Lock()
	renewals, failed := s.resets, s.failed
	s.resets = nil
	s.mu.Unlock()
	for _, r := range renewals {
		if s.worker(r.worker.id) != r.worker {
			continue // the partition is somebody else's by now
		}
		partition := map[string][]int32{s.topic: {r.worker.id}}
		s.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.topic: {r.worker.id: {Epoch: -1, Offset: r.at.first}}})
		s.ResumeFetchPartitions(partition)
		s.start(r.worker.id).beginAt(r.at)
	}
	return failed
}

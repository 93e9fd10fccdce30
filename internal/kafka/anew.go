package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
)

// startAnew is an error of a Starter's Apply by which it says that trying again
// is no use: only reading again from where Start says now helps, as when its
// store has lost what it had taken.
type startAnew interface{ StartAnew() bool }

func wantsAnew(err error) bool {
	var wanted startAnew
	return errors.As(err, &wanted) && wanted.StartAnew()
}

// renewal is a feed that is to be replaced by one that starts at a position.
type renewal[T any] struct {
	feed *feed[T]
	at   position
}

// anew asks the handler where to start now and leaves the rest to the loop: only
// between two polls is it sure that nothing from beyond that position is on its
// way. The feed ends with this.
func (f *feed[T]) anew() {
	at, err := f.s.position(f.ctx, f.id, -1)
	if err != nil {
		if f.ctx.Err() == nil {
			f.s.f.log.Error("starting a partition anew", "partition", f.id, "error", err)
			f.s.restart(err)
		}
		return
	}
	f.s.f.log.Warn("a partition starts anew", "partition", f.id, "offset", at.first, "before", f.next.Load())
	f.s.mu.Lock()
	f.s.renewals = append(f.s.renewals, renewal[T]{f, at})
	f.s.mu.Unlock()
	f.s.wake()
}

// restart ends the following, which begins again with all its partitions.
func (s *following[T]) restart(err error) {
	s.mu.Lock()
	s.failed = broken("anew", "%w", err)
	s.mu.Unlock()
	s.wake()
}

// wake ends the poll under way.
func (s *following[T]) wake() {
	if cancel := s.wakeup.Load(); cancel != nil {
		(*cancel)()
	}
}

// poll waits for records, until stop ends or somebody wakes the loop.
func (s *following[T]) poll(stop context.Context) kgo.Fetches {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	s.wakeup.Store(&cancel)
	s.mu.Lock()
	waiting := len(s.renewals) > 0 || s.failed != nil
	s.mu.Unlock()
	if waiting {
		cancel()
	}
	return s.PollFetches(ctx)
}

// renew replaces the feeds that asked for it. It is called by the loop between a
// poll and AllowRebalance, so that no partition comes or goes meanwhile.
func (s *following[T]) renew() error {
	s.mu.Lock()
	renewals, failed := s.renewals, s.failed
	s.renewals = nil
	s.mu.Unlock()
	for _, r := range renewals {
		if s.feed(r.feed.id) != r.feed {
			continue // the partition is somebody else's by now
		}
		partition := map[string][]int32{s.name: {r.feed.id}}
		s.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.name: {r.feed.id: {Epoch: -1, Offset: r.at.first}}})
		s.ResumeFetchPartitions(partition)
		s.start(r.feed.id).beginAt(r.at)
	}
	return failed
}

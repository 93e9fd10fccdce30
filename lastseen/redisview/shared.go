package redisview

import (
	"context"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

const (
	// maxFlights is how many reads of one server are under way at once. Those that
	// come meanwhile wait for one another and share the next, so that a slow server
	// is not met by ever more round trips. With 2 in place of 16, readers waited for
	// one another more than sharing saved.
	maxFlights = 16
	// maxShared is how many users one shared read asks for at most; a reader who
	// does not fit in goes alone.
	maxShared = 2000
	// sharedTimeout bounds a shared read, whose readers have limits of their own.
	sharedTimeout = 2 * time.Second
)

// flights are the reads under way.
type flights struct {
	mu     sync.Mutex // protects what follows
	flying int
	next   *flight // gathers readers; nil when nobody waits
	work   sync.WaitGroup
}

// flight is one shared read. Its results may be read when done is closed.
type flight struct {
	ids     []schemas.UserID
	done    chan struct{}
	entries []Entry
	marks   Marks
	err     error
}

// readShared reads alone when the server is not busy, else together with others.
func (v *View) readShared(ctx context.Context, ids []schemas.UserID) ([]Entry, Marks, error) {
	s := &v.flights
	s.mu.Lock()
	switch {
	case s.flying < maxFlights:
		s.flying++
		s.mu.Unlock()
		entries, marks, err := v.readJudged(ctx, ids)
		if f := s.land(); f != nil {
			s.work.Go(func() { v.carry(f) })
		}
		return entries, marks, err
	case s.next != nil && len(s.next.ids)+len(ids) > maxShared:
		s.mu.Unlock()
		return v.readJudged(ctx, ids)
	case s.next == nil:
		s.next = &flight{done: make(chan struct{})}
	}
	f, from := s.next, len(s.next.ids)
	f.ids = append(f.ids, ids...)
	s.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if f.err != nil {
		return nil, nil, f.err
	}
	return f.entries[from : from+len(ids) : from+len(ids)], f.marks, nil
}

// land ends a read. It returns the readers who wait, whose read takes its place.
func (s *flights) land() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.next
	s.next = nil
	if f == nil {
		s.flying--
	}
	return f
}

// carry reads for those who wait, until nobody does.
func (v *View) carry(f *flight) {
	for ; f != nil; f = v.flights.land() {
		ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
		f.entries, f.marks, f.err = v.readJudged(ctx, f.ids)
		cancel()
		close(f.done)
	}
}

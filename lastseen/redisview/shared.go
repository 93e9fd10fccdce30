package redisview

import (
	"context"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

const (
	// maxReads is how many reads of one server run at once. Callers that arrive meanwhile share
	// the next read, so a slow server does not get ever more round trips. With 2, waiting cost
	// more than sharing saved.
	maxReads = 16
	// maxShared is how many users one shared read asks for; a caller with more users than fit
	// does not share.
	maxShared = 2000
	// sharedTimeout bounds a shared read; its callers have limits of their own.
	sharedTimeout = 2 * time.Second
)

// sharedReads are the reads in progress.
type sharedReads struct {
	mu      sync.Mutex // protects what follows
	running int
	next    *readBatch // gathers readers; nil when nobody waits
	work    sync.WaitGroup
}

// readBatch is one shared read. Its results may be read when done is closed.
type readBatch struct {
	ids      []schemas.UserID
	done     chan struct{}
	entries  []Entry
	progress ProgressMap
	err      error
}

// readShared reads at once if the server is not busy, else together with other callers.
func (v *View) readShared(ctx context.Context, ids []schemas.UserID) ([]Entry, ProgressMap, error) {
	s := &v.sharedReads
	s.mu.Lock()
	switch {
	case s.running < maxReads:
		s.running++
		s.mu.Unlock()
		entries, progress, err := v.readChecked(ctx, ids)
		if f := s.release(); f != nil {
			s.work.Go(func() { v.runBatches(f) })
		}
		return entries, progress, err
	case s.next != nil && len(s.next.ids)+len(ids) > maxShared:
		s.mu.Unlock()
		return v.readChecked(ctx, ids)
	case s.next == nil:
		s.next = &readBatch{done: make(chan struct{})}
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
	return f.entries[from : from+len(ids) : from+len(ids)], f.progress, nil
}

// release ends a read. It returns the waiting batch, if any, which takes its place.
func (s *sharedReads) release() *readBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.next
	s.next = nil
	if f == nil {
		s.running--
	}
	return f
}

// runBatches runs waiting batches until there is none.
func (v *View) runBatches(f *readBatch) {
	for ; f != nil; f = v.sharedReads.release() {
		ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
		f.entries, f.progress, f.err = v.readChecked(ctx, f.ids)
		cancel()
		close(f.done)
	}
}

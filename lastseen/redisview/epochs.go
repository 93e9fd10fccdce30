package redisview

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// readChecked reads values and the progress by which they are judged. An absent user means
// something only if Redis was complete at that moment: the partition had progress before and after
// the read, under one epoch. A Redis that was emptied in between has no progress, or after a
// rebuild another epoch. On one server the rebuild tag shows that there was no rebuild; otherwise
// the progress is read again.
//
// A restarted server or a promoted replica may have older entries: the client has connected again,
// and that server's own progress says how old they are.
func (v *View) readChecked(ctx context.Context, ids []schemas.UserID, got []Entry) (ProgressMap, error) {
	read := v.readTogether
	if v.cluster {
		read = v.readOneByOne
	}
	before, held, err := read(ctx, ids, got)
	if err != nil {
		return nil, err
	}
	held = held || len(before.progress) == 0 || allFound(got)
	if held && before.connects == v.connects.Load() {
		return before.progress, nil
	}
	after, err := v.freshProgress(ctx)
	if err != nil {
		return nil, err
	}
	return before.progress.unchanged(after.progress), nil
}

func allFound(got []Entry) bool {
	return !slices.ContainsFunc(got, func(e Entry) bool { return !e.Found })
}

// unchanged returns later without the partitions that were rebuilt since m.
func (m ProgressMap) unchanged(later ProgressMap) ProgressMap {
	valid := func(partition int32, progress Progress) bool {
		before, known := m[partition]
		return progress.Rebuilding || known && before.Epoch == progress.Epoch && !before.Rebuilding
	}
	for partition, progress := range later {
		if valid(partition, progress) {
			continue
		}
		some := make(ProgressMap, len(later))
		for partition, progress := range later {
			if valid(partition, progress) {
				some[partition] = progress
			}
		}
		return some
	}
	return later // as a rule
}

// freshReads are reads of the progress for callers that must not use an earlier one.
type freshReads struct {
	mu      sync.Mutex // protects what follows
	running bool
	next    *freshRead // gathers those who came while one was under way
}

// freshRead is one of them. Its result may be read when done is closed.
type freshRead struct {
	done chan struct{}
	read *progressSnapshot
	err  error
}

// freshProgress reads the progress, not earlier than now. Callers that arrive during a read share
// the next one.
func (v *View) freshProgress(ctx context.Context) (*progressSnapshot, error) {
	a := &v.fresh
	a.mu.Lock()
	if a.next == nil {
		a.next = &freshRead{done: make(chan struct{})}
	}
	r := a.next
	if !a.running {
		a.running, a.next = true, nil
		v.sharedReads.work.Go(func() { v.runProgressReads(r) })
	}
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.read, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// runProgressReads reads for r, then for the callers that arrived meanwhile, until none did.
func (v *View) runProgressReads(r *freshRead) {
	for r != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
		var asked progressRequest
		_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			asked = v.requestProgress(ctx, p)
			return nil
		})
		cancel()
		if err != nil {
			r.err = fmt.Errorf("reading the progress: %w", err)
		} else {
			r.read = v.keepProgress(asked)
		}
		close(r.done)
		v.fresh.mu.Lock()
		r, v.fresh.next = v.fresh.next, nil
		v.fresh.running = r != nil
		v.fresh.mu.Unlock()
	}
}

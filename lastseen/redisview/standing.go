package redisview

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// readJudged reads entries and marks by which they may be judged. That a user is
// absent says something only if Redis had everything at that moment: the mark of the
// partition was there before, and is there after, of one epoch. A Redis that was
// emptied in between has no mark, or after a rebuild one of another epoch. One server
// tells by the tag of the rebuilds that there was none, else the marks are read again.
//
// A server that came back, or another one that took over, may have older entries: it
// has been connected to anew, and its own marks say how old they are.
func (v *View) readJudged(ctx context.Context, ids []schemas.UserID) ([]Entry, Marks, error) {
	read := v.readTogether
	if v.cluster {
		read = v.readOneByOne
	}
	entries, before, held, err := read(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	held = held || len(before.marks) == 0 || !slices.ContainsFunc(entries, func(e Entry) bool { return !e.Found })
	if held && before.connects == v.connects.Load() {
		return entries, before.marks, nil
	}
	after, err := v.marksFromNow(ctx)
	if err != nil {
		return nil, nil, err
	}
	return entries, before.marks.standing(after.marks), nil
}

// standing are the later marks without those of partitions that were rebuilt since
// the earlier ones.
func (m Marks) standing(later Marks) Marks {
	stands := func(partition int32, mark Mark) bool {
		before, known := m[partition]
		return mark.Rebuilding || known && before.Epoch == mark.Epoch && !before.Rebuilding
	}
	for partition, mark := range later {
		if stands(partition, mark) {
			continue
		}
		some := make(Marks, len(later))
		for partition, mark := range later {
			if stands(partition, mark) {
				some[partition] = mark
			}
		}
		return some
	}
	return later // as a rule
}

// again are the readings of the marks that nobody may take an earlier one for.
type again struct {
	mu     sync.Mutex // protects what follows
	flying bool
	next   *reading // gathers those who came while one was under way
}

// reading is one of them. Its result may be read when done is closed.
type reading struct {
	done chan struct{}
	read *marksRead
	err  error
}

// marksFromNow reads the marks, not earlier than now. Those who ask while others are
// being answered share the next reading.
func (v *View) marksFromNow(ctx context.Context) (*marksRead, error) {
	a := &v.again
	a.mu.Lock()
	if a.next == nil {
		a.next = &reading{done: make(chan struct{})}
	}
	r := a.next
	if !a.flying {
		a.flying, a.next = true, nil
		v.flights.work.Go(func() { v.readMarks(r) })
	}
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.read, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readMarks reads for r, and then for those who came meanwhile, until nobody did.
func (v *View) readMarks(r *reading) {
	for r != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
		var asked marksAsked
		_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			asked = v.askMarks(ctx, p)
			return nil
		})
		cancel()
		if err != nil {
			r.err = fmt.Errorf("reading the marks: %w", err)
		} else {
			r.read = v.keepMarks(asked)
		}
		close(r.done)
		v.again.mu.Lock()
		r, v.again.next = v.again.next, nil
		v.again.flying = r != nil
		v.again.mu.Unlock()
	}
}

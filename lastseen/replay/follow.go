package replay

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// pollInterval is how often a partition that is read to its end is read again.
const pollInterval = 100 * time.Millisecond

// Follow continues where Run has ended, until ctx ends. It calls emit for what is published, and idle
// when a partition has no more; never two of them at a time. Rows come as they are published: each
// partition in its order, the partitions in any order. It returns nil if ctx has ended, and
// ErrRecreated if the topic was recreated.
func Follow(ctx context.Context, log Log, o *Options, from Summary, emit func(*store.Entry) error, idle func() error) error {
	g, inner := errgroup.WithContext(ctx)
	var out sync.Mutex // held while emit and idle run
	for id, next := range from.ends {
		g.Go(func() (err error) {
			for ; err == nil; err = sleep(inner, pollInterval) {
				if next, err = followPart(inner, log, o, from.topic, id, next, &out, emit, idle); err != nil {
					return err
				}
			}
			return err
		})
	}
	if err := g.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// followPart emits what a partition has from an offset on, and returns the offset after that.
func followPart(ctx context.Context, log Log, o *Options, topic schemas.TopicID, id int32, next int64, out *sync.Mutex,
	emit func(*store.Entry) error, idle func() error,
) (int64, error) {
	if o.Look != nil {
		out.Lock()
		err := o.Look()
		out.Unlock()
		if err != nil {
			return next, err
		}
	}
	_, end, err := log.Bounds(ctx, id)
	if err != nil || end == next {
		return next, err
	}
	if err := checkSameTopic(ctx, log, topic); err != nil || end < next {
		return next, err
	}
	alone := func(e *store.Entry) error {
		out.Lock()
		defer out.Unlock()
		return emit(e)
	}
	// What was committed together with the changes is known after them.
	named := o.newNamer(alone)
	var e store.Entry
	err = log.Read(ctx, id, next, end, func(r *schemas.Record) error {
		event, err := e.Scan(r.Value)
		if err != nil {
			return nil
		}
		if !o.Filter.wants(&e) {
			return nil
		}
		e.SetEvent(event)
		if named != nil {
			return named.takeFresh(ctx, &e, id)
		}
		return alone(&e)
	})
	if err == nil && named != nil {
		err = named.flushFresh(ctx, id)
	}
	if err != nil {
		return next, err
	}
	out.Lock()
	defer out.Unlock()
	return end, idle()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package replay

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// lookEvery is how often a partition that is read to its end is looked at again.
const lookEvery = 100 * time.Millisecond

// Follow goes on where Run has ended, until ctx ends, and hands what is published
// to emit, from one goroutine, and calls idle when nothing more is at hand. Rows
// come as they are published: each partition in its order, the partitions as they
// come. It returns nil when ctx has ended, and ErrRecreated when the topic has.
func Follow(ctx context.Context, log Log, o *Options, from Summary, emit func(*store.Entry) error, idle func() error) error {
	type piece []store.Entry
	pieces := make(chan piece, 16)
	outer := ctx
	g, ctx := errgroup.WithContext(ctx)
	for id, next := range from.ends {
		g.Go(func() error {
			for {
				_, end, err := log.Bounds(ctx, id)
				if err != nil {
					return err
				}
				if next != end {
					if err := checkSameTopic(ctx, log, from.topic); err != nil {
						return err
					}
				}
				var rows piece
				if next < end {
					var e store.Entry
					err = log.Read(ctx, id, next, end, func(r *schemas.Record) error {
						event, err := e.Scan(r.Value)
						if err == nil && o.Filter.wants(&e) {
							e.SetEvent(event)
							rows = append(rows, e)
						}
						if len(rows) < blockRows {
							return nil
						}
						select {
						case pieces <- rows:
						case <-ctx.Done():
							return ctx.Err()
						}
						rows = nil
						return nil
					})
					if err != nil {
						return err
					}
					next = end
				}
				wait := time.NewTimer(lookEvery)
				if len(rows) > 0 {
					select {
					case pieces <- rows:
					case <-ctx.Done():
					}
				}
				select {
				case <-wait.C:
				case <-ctx.Done():
					wait.Stop()
					return ctx.Err()
				}
			}
		})
	}
	g.Go(func() error {
		for {
			select {
			case rows := <-pieces:
				for i := range rows {
					if err := emit(&rows[i]); err != nil {
						return err
					}
				}
				if len(pieces) > 0 {
					continue
				}
				if err := idle(); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	err := g.Wait()
	if outer.Err() != nil {
		return nil
	}
	return err
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// reading is a plan that is being carried out.
type reading struct {
	plan

	read, doubles, unreadable atomic.Int64
}

// merge calls take for each wanted row, as the function merge does. When it returns, nothing is read
// any more.
func (r *reading) merge(ctx context.Context, take func(e *store.Entry, latest schemas.Millis) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var sources []*source
	defer func() {
		cancel()
		for _, s := range sources {
			for range s.blocks { //nolint:revive // nobody wants them any more
			}
		}
	}()
	if of, seams := r.beforeSeams(); len(seams) > 0 && (of.To == 0 || of.From < of.To) {
		sources = append(sources, startSource(ctx, func(put func(*store.Entry) error) error {
			return r.readArchive(ctx, of, seams, put)
		}))
	}
	for _, p := range r.parts {
		if p.from < p.to {
			sources = append(sources, startSource(ctx, func(put func(*store.Entry) error) error {
				return r.readTopic(ctx, p, put)
			}))
		}
	}
	return merge(sources, take)
}

// report reports the progress.
func (r *reading) report(rows int64, at schemas.Millis) {
	if r.o.Progress == nil {
		return
	}
	total := int64(0)
	for _, p := range r.parts {
		total += p.to - p.from
	}
	r.o.Progress(Progress{Rows: rows, Read: r.read.Load(), Total: total, At: at})
}

// beforeSeams returns what to read from the archive, and the partitions to take it for.
func (r *reading) beforeSeams() (store.Range, map[int32]part) {
	seams := map[int32]part{}
	of := store.Range{From: r.filter.From, To: r.filter.To}
	if len(r.filter.Users) == 1 {
		of.User = r.filter.Users[0]
	}
	var until schemas.Millis
	open := false
	for _, p := range r.parts {
		if p.before >= 0 {
			seams[p.id] = p
			until, open = max(until, p.until), open || p.until == 0
		}
	}
	if !open && until > 0 && (of.To == 0 || until < of.To) {
		of.To = until
	}
	return of, seams
}

// readArchive puts what the archive has before the seams.
func (r *reading) readArchive(ctx context.Context, of store.Range, seams map[int32]part, put func(*store.Entry) error) error {
	return r.archive.Changes(ctx, of, func(e *store.Entry) error {
		seam, asked := seams[schemas.PartitionOf(e.User, r.count)]
		if !asked || e.Version.Record() > seam.before {
			return nil
		}
		if e.Version.Record() == seam.before {
			if _, double := seam.own[rowID{e.User, e.Version}]; double {
				r.doubles.Add(1)
				return nil
			}
		}
		if !r.filter.wants(e) {
			return nil
		}
		return put(e)
	})
}

// readTopic puts what the topic has of a partition, from its seam on.
func (r *reading) readTopic(ctx context.Context, p part, put func(*store.Entry) error) error {
	var e store.Entry
	last := p.from
	err := r.log.Read(ctx, p.id, p.from, p.to, func(record *schemas.Record) error {
		if record.Offset-last >= blockRows {
			r.read.Add(record.Offset - last)
			last = record.Offset
		}
		event, err := e.Scan(record.Value)
		if err != nil {
			r.unreadable.Add(1)
			return nil
		}
		if !r.filter.wants(&e) {
			return nil
		}
		e.SetEvent(event)
		return put(&e)
	})
	r.read.Add(p.to - last)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrOvertaken) {
		return fmt.Errorf("partition %d: %w", p.id, err)
	}
	return err
}

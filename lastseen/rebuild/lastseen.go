package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Progress is how far a rebuild is.
type Progress struct {
	Read, Total int64 // offsets of the topic
	Written     int64 // transitions handed to the store
}

// batchRows is how many transitions are written in one transaction, for which the sink of the partition
// waits.
const batchRows = 5000

// Lastseen writes everything that the topic has now to the store.
func Lastseen(ctx context.Context, log replay.Log, to store.Writer, progress func(Progress)) (Progress, error) {
	var p Progress
	count, err := log.Partitions(ctx)
	if err != nil {
		return p, err
	}
	type bounds struct{ start, end int64 }
	all := make([]bounds, count)
	for id := range all {
		if all[id].start, all[id].end, err = log.Bounds(ctx, int32(id)); err != nil {
			return p, err
		}
		p.Total += all[id].end - all[id].start
	}
	before := int64(0)
	for id, b := range all {
		w := writing{to: to, partition: int32(id), start: b.start}
		err := log.Read(ctx, int32(id), b.start, b.end, func(r *schemas.Record) error {
			p.Read = before + r.Offset - b.start
			change, err := schemas.DecodeTransition(r.Value)
			if err != nil {
				return nil // the sink has sent it to the dead-letter topic
			}
			if w.changes = append(w.changes, change); len(w.changes) < batchRows {
				return nil
			}
			p.Written += int64(len(w.changes))
			progress(p)
			return w.write(ctx)
		})
		if err == nil {
			p.Written += int64(len(w.changes))
			err = w.write(ctx)
		}
		if err != nil {
			return p, fmt.Errorf("partition %d: %w", id, err)
		}
		before += b.end - b.start
		p.Read = before
		progress(p)
	}
	return p, nil
}

// writing writes one partition.
type writing struct {
	to        store.Writer
	partition int32
	start     int64
	changes   []*schemas.Transition
}

// write writes the changes without moving the store's offset. If the sink moves it meanwhile, write tries
// again.
func (w *writing) write(ctx context.Context) error {
	if len(w.changes) == 0 {
		return nil
	}
	for tries := 0; ; tries++ {
		at, err := w.to.Position(ctx, w.partition)
		if err != nil {
			return err
		}
		batch := store.Batch{Partition: w.partition, Expected: at.Next, ExpectedTopic: at.Topic, Next: at.Next, Changes: w.changes}
		if at.Next == store.Unknown {
			// The store is empty: a sink that starts now starts at the beginning of the log.
			batch.Next = w.start
		}
		err = w.to.Append(ctx, batch)
		if err == nil {
			w.changes = w.changes[:0]
			return nil
		}
		if !errors.Is(err, store.ErrFenced) || tries == 100 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

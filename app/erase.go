package app

import (
	"context"
	"slices"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// erasingGraph is the sink's store where the follower graph is known: an erased user loses its edges
// before the store erases the rest. If the graph fails, the sink repeats the batch.
type erasingGraph struct {
	erasingStore
	graph *graph.Store
}

// erasingStore is what both stores are.
type erasingStore interface {
	store.Writer
	Erased(ctx context.Context) (map[schemas.UserID]schemas.Version, error)
}

func (e erasingGraph) Append(ctx context.Context, batch store.Batch) error {
	if err := e.forget(ctx, batch); err != nil {
		return err
	}
	return e.erasingStore.Append(ctx, batch)
}

// forget removes the edges of the users whom the batch erases. An erasure that is read again removes
// nothing: the edges are those of the user who came back.
func (e erasingGraph) forget(ctx context.Context, batch store.Batch) error {
	erases := func(t *schemas.Transition) bool { return t.Cause == schemas.Erased }
	if !slices.ContainsFunc(batch.Changes, erases) {
		return nil
	}
	at, err := e.Position(ctx, batch.Partition)
	if err != nil || at.Next != batch.Expected {
		return err // Append refuses the batch of a former owner
	}
	known, err := e.Erased(ctx)
	if err != nil {
		return err
	}
	for _, t := range batch.Changes {
		if erases(t) && t.Version > known[t.User] {
			if err := e.graph.Forget(ctx, t.User); err != nil {
				return err
			}
		}
	}
	return nil
}

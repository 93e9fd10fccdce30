package app

import (
	"context"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// erasingGraph is the sink's store where the follower graph is known: an erased user loses its edges
// before the store erases the rest. If the graph fails, the sink repeats the batch.
type erasingGraph struct {
	store.Writer
	graph *graph.Store
}

func (e erasingGraph) Append(ctx context.Context, batch store.Batch) error {
	for _, t := range batch.Changes {
		if t.Cause == schemas.Erased {
			if err := e.graph.Forget(ctx, t.User); err != nil {
				return err
			}
		}
	}
	return e.Writer.Append(ctx, batch)
}

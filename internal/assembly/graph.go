package assembly

import (
	"context"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
)

// GraphFile is the name of the follower graph in the data directory of dev.
const GraphFile = "graph.db"

// OpenGraph opens the follower graph that store names.
func OpenGraph(ctx context.Context, store Store) (graph.Store, error) {
	if err := store.validate(); err != nil {
		return nil, err
	}
	if store.SQLite != "" {
		return sqlitegraph.Open(ctx, store.SQLite)
	}
	config := pggraph.Defaults()
	config.URL = store.Postgres
	return pggraph.Open(ctx, config)
}

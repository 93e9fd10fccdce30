package app

import (
	"context"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// GraphFile is the name of the follower graph in the data directory of dev.
const GraphFile = "graph.db"

// Graph is a follower graph in tables.
type Graph interface {
	graph.Store
	schemaReporter
}

// OpenGraph opens the follower graph that store names. limits says how Postgres is
// treated, and its password.
func OpenGraph(ctx context.Context, store Store, limits pgstore.Config) (Graph, error) {
	if err := store.validate(); err != nil {
		return nil, err
	}
	if store.SQLite != "" {
		return sqlitegraph.Open(ctx, store.SQLite)
	}
	return pggraph.Open(ctx, GraphPostgres(store.Postgres, limits))
}

// GraphPostgres are the settings for the graph on the server at url. Its statements
// may run twice as long as others: the followers of one user may be millions.
func GraphPostgres(url string, limits pgstore.Config) pggraph.Config {
	config := limits.Config
	config.URL, config.StatementTimeout = url, 2*limits.StatementTimeout
	return config
}

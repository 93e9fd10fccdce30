package app

import (
	"context"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/postgres"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// GraphFile is the name of the follower graph in the data directory of dev.
const GraphFile = "graph.db"

// OpenGraph opens the follower graph that store names. limits are the timeouts and the
// password of Postgres.
func OpenGraph(ctx context.Context, store Store, limits pgstore.Config) (*graph.Store, error) {
	if err := store.validate(); err != nil {
		return nil, err
	}
	if store.SQLite != "" {
		return sqlitegraph.Open(ctx, store.SQLite)
	}
	return pggraph.Open(ctx, graphPostgres(store.Postgres, limits))
}

// graphPostgres returns the settings of the graph on the server at url. Its statements may
// run twice as long as others: one user may have millions of followers.
func graphPostgres(url string, limits pgstore.Config) postgres.Config {
	config := limits.Config
	config.URL, config.StatementTimeout = url, 2*limits.StatementTimeout
	return config
}

// Migrate brings the tables of all services in Postgres up to date.
func Migrate(ctx context.Context, config pgstore.Config) error {
	if err := pgstore.Migrate(ctx, config); err != nil {
		return err
	}
	return pggraph.Migrate(ctx, graphPostgres(config.URL, config))
}

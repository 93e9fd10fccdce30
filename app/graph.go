package app

import (
	"context"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/graphgate"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/postgres"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
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

// newGraphEndpoints serves the follower graph over HTTP.
func newGraphEndpoints(p base, store *graph.Store) component {
	server := graphgate.New(graphgate.Defaults(), graphgate.Dependencies{
		Store: store, Users: p.cluster.Users, Forbidden: ingest.IsForbidden, Registry: p.registry, Log: p.log, CheckOrigin: p.config.Ingest.CheckOrigin,
		Tenant: func(r *http.Request) (string, error) { return ingest.TenantOf(r, p.cluster.Users) }, Tenants: p.accounts,
		Charge: func(r *http.Request, entries int) (time.Duration, int) {
			if caller := ingest.CallerOf(r.Context()); caller != nil && caller.Charge != nil {
				return caller.Charge(entries)
			}
			return 0, 0
		},
	})
	return component{routes: []func(*http.ServeMux){server.Routes}}
}

// The positions of an Applier are in the store, and it has a map of partitions.
var _ interface {
	consumer.PositionedHandler
	consumer.StoppedHandler
} = (*graph.Applier)(nil)

// graphRecords is how many records of presence.graph one transaction of the store applies at most.
const graphRecords = 10_000

// newGraphTopic applies presence.graph to the follower graph.
func newGraphTopic(p base, store *graph.Store) component {
	cluster := p.cluster
	cluster.MaxPollRecords = graphRecords
	topic := schemas.Graph.Name(cluster.WithDefaults().Prefix)
	records := consumer.New(cluster, graphGroup, schemas.Graph, graph.DecodeFollow(p.cluster.Users), graph.NewApplier(store, topic, p.registry),
		p.producer, p.log, p.kafkaMetrics, consumer.MinBatchInterval(50*time.Millisecond))
	return loop("graph topic", records.Run, records.Ready)
}

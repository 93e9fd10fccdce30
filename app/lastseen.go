package app

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/projector"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

type lastseenDeps struct {
	base
	store   durableStore
	graph   *graph.Store // nil: there is none
	view    *redisview.View
	bus     *redisbus.Bus
	origin  *origin.Origin
	metrics *lastseen.Metrics
}

// Both store offsets of their own, and have gauges of their partitions.
var _, _ interface {
	consumer.PositionedHandler
	consumer.StoppedHandler
} = (*sink.Sink)(nil), (*projector.Projector)(nil)

// seenEvery is the time between two batches of hints of a partition.
const seenEvery = 500 * time.Millisecond

// newLastseen keeps the durable store and Redis up to date.
func newLastseen(d lastseenDeps) (c component, err error) {
	reader, err := kafka.NewReader(d.cluster, d.log)
	if err != nil {
		return c, err
	}
	c = closing("status reader", reader.Close)
	c.services = []service{
		{"Redis eviction check", loops, func(ctx context.Context) error {
			if err := d.view.CheckEviction(ctx); err != nil {
				d.log.Warn("looking whether Redis drops keys", "error", err)
			}
			<-ctx.Done()
			return nil
		}},
		{"awaited log epochs", loops, func(ctx context.Context) error { return d.metrics.Awaited.Run(ctx, d.log) }},
		{"store maintenance", loops, func(ctx context.Context) error {
			return d.store.Run(ctx, func(err error) { d.log.Warn("maintaining the store", "error", err) })
		}},
	}
	batches := d.cluster
	batches.MaxPollRecords = d.config.Lastseen.SinkRows // a batch is one transaction of the store
	var rows store.Writer = d.store
	if d.graph != nil {
		rows = erasingGraph{d.store, d.graph}
	}
	c = c.with(transitionLoop(d.base, d.origin, batches, "sink", sinkGroup, sink.New(rows, d.config.Lastseen, d.metrics), consumer.MinBatchInterval(d.config.Lastseen.SinkEvery)))

	seen := projector.NewSeen(d.view, d.config.Lastseen, d.metrics)
	if d.cluster.Users.Text() {
		seen = seen.WithTenants()
	}
	heard := consumer.New(d.cluster, seenGroup, schemas.SeenHints, projector.DecodeSeen(d.partitions), seen, d.producer, d.log, d.kafkaMetrics,
		consumer.FromEnd(), consumer.MinBatchInterval(seenEvery))
	c = c.with(loop("seen", heard.Run, heard.Ready))

	unsure := consumer.New(d.cluster, unsureGroup, schemas.Statuses, projector.DecodeUnsure(d.origin.CheckStatus),
		projector.NewUnsure(d.view, d.config.Lastseen, d.metrics, d.bus.Reread), d.producer, d.log, d.kafkaMetrics, consumer.FromEnd())
	c = c.with(loop("unsure", unsure.Run, unsure.Ready))

	if d.cluster.Users.Text() {
		names := consumer.New(d.cluster, namesGroup, schemas.Names, sink.DecodeName(d.cluster.Users),
			sink.NewNames(d.store, d.config.Lastseen), d.producer, d.log, d.kafkaMetrics)
		c = c.with(loop("names", names.Run, names.Ready))
		c.services = append(c.services, service{"history of tenants", loops, d.cleanTenants})
	}

	project := projector.New(d.view, newestStatuses(reader, d.origin.CheckStatus, d.log), d.config.Lastseen, d.metrics, d.log).WithStore(d.store)
	return c.with(transitionLoop(d.base, d.origin, d.cluster, "projector", projectorGroup, project, consumer.WatermarksOf(detectorGroup, schemas.Heartbeats))), nil
}

// cleanEvery is the time between two looks for changes that tenants do not keep any more.
const cleanEvery = time.Minute

// cleanTenants deletes them until ctx ends.
func (d lastseenDeps) cleanTenants(ctx context.Context) error {
	cleaner := store.Cleaner{Log: d.store, Days: func(tenant string) int { return d.tenants.Settings(tenant).HistoryDays },
		Grace:   store.EdgesFor,
		Dropped: func(n int64) { d.metrics.TenantsDropped.Add(float64(n)) },
		Pending: func(n int64) { d.metrics.TenantsPending.Set(float64(n)) }}
	for range tick.Now(ctx, cleanEvery) {
		if err := cleaner.Clean(ctx, time.Now()); err != nil && ctx.Err() == nil {
			d.log.Warn("deleting changes that tenants do not keep any more failed; it is tried again within a minute", "error", err)
		}
	}
	return nil
}

// transitionLoop is a consumer of the transitions.
func transitionLoop(p base, origin *origin.Origin, cluster kafka.Config, name, group string, handler consumer.Handler[stream.Logged[*schemas.Transition]], options ...consumer.Option) component {
	transitions := consumer.New(cluster, group, schemas.Transitions, origin.Decode, handler, p.producer, p.log, p.kafkaMetrics, options...)
	return loop(name, transitions.Run, transitions.Ready)
}

package app

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen/projector"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Both store offsets of their own, and have gauges of their partitions.
var _, _ interface {
	consumer.PositionedHandler
	consumer.StoppedHandler
} = (*sink.Sink)(nil), (*projector.Projector)(nil)

// seenEvery is the time between two batches of hints of a partition.
const seenEvery = 500 * time.Millisecond

// newLastseen keeps the durable store and Redis up to date.
func (b *builder) newLastseen() (c component, err error) {
	metrics := b.useLastseenMetrics()
	reader, err := kafka.NewReader(b.cluster, b.log)
	if err != nil {
		return c, err
	}
	c = closing("status reader", reader.Close)
	c.services = []service{
		{"Redis eviction check", loops, func(ctx context.Context) error {
			if err := b.view.CheckEviction(ctx); err != nil {
				b.log.Warn("looking whether Redis drops keys", "error", err)
			}
			<-ctx.Done()
			return nil
		}},
		{"awaited log epochs", loops, func(ctx context.Context) error { return metrics.Awaited.Run(ctx, b.log) }},
		{"store maintenance", loops, func(ctx context.Context) error {
			return b.store.Run(ctx, func(err error) { b.log.Warn("maintaining the store", "error", err) })
		}},
	}
	batches := b.cluster
	batches.MaxPollRecords = b.config.Lastseen.SinkRows // a batch is one transaction of the store
	var rows store.Writer = b.store
	if b.graph != nil {
		rows = erasingGraph{b.store, b.graph}
	}
	c = c.with(transitionLoop(b.base, b.origin, batches, "sink", sinkGroup, sink.New(rows, b.config.Lastseen, metrics), consumer.MinBatchInterval(b.config.Lastseen.SinkEvery)))

	seen := projector.NewSeen(b.view, b.config.Lastseen, metrics)
	if b.cluster.Users.Text() {
		seen = seen.WithTenants()
	}
	heard := consumer.New(b.cluster, seenGroup, schemas.SeenHints, projector.DecodeSeen(b.partitions), seen, b.producer, b.log, b.kafkaMetrics,
		consumer.FromEnd(), consumer.MinBatchInterval(seenEvery))
	c = c.with(loop("seen", heard.Run, heard.Ready))

	unsure := consumer.New(b.cluster, unsureGroup, schemas.Statuses, projector.DecodeUnsure(b.origin.CheckStatus),
		projector.NewUnsure(b.view, b.config.Lastseen, metrics, b.bus.Reread), b.producer, b.log, b.kafkaMetrics, consumer.FromEnd())
	c = c.with(loop("unsure", unsure.Run, unsure.Ready))

	if b.cluster.Users.Text() {
		names := consumer.New(b.cluster, namesGroup, schemas.Names, sink.DecodeName(b.cluster.Users),
			sink.NewNames(b.store, b.config.Lastseen), b.producer, b.log, b.kafkaMetrics)
		c = c.with(loop("names", names.Run, names.Ready))
		c.services = append(c.services, service{"history of tenants", loops, b.cleanTenants})
	}

	project := projector.New(b.view, newestStatuses(reader, b.origin.CheckStatus, b.log), b.config.Lastseen, metrics, b.log).WithStore(b.store)
	return c.with(transitionLoop(b.base, b.origin, b.cluster, "projector", projectorGroup, project, consumer.WatermarksOf(detectorGroup, schemas.Heartbeats))), nil
}

// cleanEvery is the time between two looks for changes that tenants do not keep any more.
const cleanEvery = time.Minute

// cleanTenants deletes them until ctx ends.
func (b *builder) cleanTenants(ctx context.Context) error {
	cleaner := store.Cleaner{Log: b.store, Days: func(tenant string) int { return b.tenants.Settings(tenant).HistoryDays },
		Grace:   store.EdgesFor,
		Dropped: func(n int64) { b.lastseenMetrics.TenantsDropped.Add(float64(n)) },
		Pending: func(n int64) { b.lastseenMetrics.TenantsPending.Set(float64(n)) }}
	for range tick.Now(ctx, cleanEvery) {
		if err := cleaner.Clean(ctx, time.Now()); err != nil && ctx.Err() == nil {
			b.log.Warn("deleting changes that tenants do not keep any more failed; it is tried again within a minute", "error", err)
		}
	}
	return nil
}

// transitionLoop is a consumer of the transitions.
func transitionLoop(p base, origin *origin.Origin, cluster kafka.Config, name, group string, handler consumer.Handler[stream.Logged[*schemas.Transition]], options ...consumer.Option) component {
	transitions := consumer.New(cluster, group, schemas.Transitions, origin.Decode, handler, p.producer, p.log, p.kafkaMetrics, options...)
	return loop(name, transitions.Run, transitions.Ready)
}

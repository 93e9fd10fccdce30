package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/fanout/publish"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/ingest/socketgate"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/lastseen/projector"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/schemas"
)

// Role is a part of the pipeline that can run as a process of its own.
type Role struct {
	Name                string
	doors, redis, store bool // what it needs
	framed              bool // writes what may have the head of a Schema Registry
	// needs are the checks without which the role cannot do its own job, first those that
	// have to pass once before it is ready. Without the others it is degraded.
	needs, first []string
	build        func(context.Context, *builder) error
}

// Roles are all roles, in the order of the data's way.
var Roles = []Role{
	{"ingest", true, false, false, false, []string{"kafka", "auth"}, nil, ingestRole},
	{"detector", false, false, false, true, []string{"kafka", "detector"}, nil, detectorRole},
	{"lastseen", false, true, true, false, []string{"kafka", "redis", "store", "sink", "projector"}, nil, lastseenRole},
	{"fanout", false, true, false, true, []string{"kafka", "publisher", "follower planner", "follower worker", "follower graph"}, nil, fanoutRole},
	{"api", true, true, true, false, []string{"auth", "reads"}, nil, apiRole},
	{"all", true, true, true, true, []string{"kafka", "auth", "detector"}, []string{"sink", "projector", "publisher", "follower planner", "follower worker"}, allRoles},
}

// Groups of consumers, as Kafka knows them.
const (
	detectorGroup  = origin.DetectorGroup
	sinkGroup      = "stillhere.lastseen.sink"
	projectorGroup = "stillhere.lastseen.projector"
	publishGroup   = "stillhere.fanout.publish"
)

// ingestRole takes heartbeats and writes them to Kafka. With Redis and a store its
// sockets can watch others as well.
func ingestRole(ctx context.Context, b *builder) error {
	metrics := b.ingestRoom()
	http, err := httpgate.New(b.config.Ingest, b.producer, metrics)
	if err != nil {
		return err
	}
	http.Routes(b.mux)
	b.service("HTTP gate", buffers, http.Run)
	b.onPolicy(func(c Config) { http.Follow(c.Ingest) })

	beats, err := beat.New(b.clientConfig(b.config), b.producer)
	if err != nil {
		return err
	}
	b.onPolicy(func(c Config) { beats.Follow(b.clientConfig(c)) })
	b.service("gateway client", buffers, func(ctx context.Context) error { return runClient(ctx, beats) })

	var open socketgate.OpenStream
	if b.watches() {
		stream, err := b.liveStream(ctx)
		if err != nil {
			return err
		}
		open = stream.Open
	}
	sockets, err := socketgate.New(b.config.Ingest, beats, open, metrics)
	if err != nil {
		return err
	}
	b.onPolicy(func(c Config) { sockets.Follow(c.Ingest) })
	sockets.Bound(b.connections())
	sockets.Routes(b.mux)
	b.service("socket gate", doors, sockets.Run)
	return nil
}

// watches tells whether the sockets of the role ingest can watch others.
func (b *builder) watches() bool { return b.config.Redis.given() && b.config.Store != (Store{}) }

// clientConfig makes this process the gateway of its sockets.
func (b *builder) clientConfig(of Config) beat.Config {
	c := beat.Config{
		GatewayID: of.Ingest.GatewayID, Partitions: b.partitions, HeartbeatInterval: of.Policy.HeartbeatInterval,
		AliveInterval: of.Ingest.AliveInterval, ForgetAfter: of.Ingest.ForgetAfter,
		AppendTimeout: of.Ingest.AppendTimeout, Metrics: b.ingestRoom().Metrics, Log: b.log,
	}
	if idle := of.Policy.IdleAfter; idle > 0 {
		c.ActiveAfterIdle = min(time.Minute, idle)
	}
	return c
}

// runClient runs the client and closes it in good order when ctx ends.
func runClient(ctx context.Context, c *beat.Buffer) error {
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.WithoutCancel(ctx)) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := c.Close(grace)
	return errors.Join(err, <-ended)
}

// detectorRole decides who is here.
func detectorRole(ctx context.Context, b *builder) error {
	if err := b.verifyPartitioning(ctx); err != nil {
		return err
	}
	config := detector.Config{Settings: b.config.Policy, Log: b.log, Metrics: detector.NewMetrics(b.registry), Now: time.Now, Key: newKey(),
		Slice: crashpoint.Bound("STILLHERE_SLICE")}
	cluster := b.config.Kafka
	if n := crashpoint.Bound("STILLHERE_TRANSACTION_RECORDS"); n > 0 {
		cluster.MaxTransactionRecords = n
	}
	loop := kafka.NewTransform(cluster, detectorGroup, schemas.Heartbeats,
		func(partition int32) kafka.Task { return detector.NewPartition(config, partition) }, b.producer, b.log, b.streamMetrics).
		Writes(schemas.Transitions, schemas.Statuses)
	b.service("detector", loops, loop.Run)
	b.check("detector", func(context.Context) error { return loop.Ready() })
	return nil
}

// newKey is a number that nobody can guess.
func newKey() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// lastseenRole keeps the durable store and Redis up to date.
func lastseenRole(ctx context.Context, b *builder) error {
	kept, err := b.durableStore(ctx)
	if err != nil {
		return err
	}
	view, err := b.redisView()
	if err != nil {
		return err
	}
	b.service("Redis eviction check", loops, func(ctx context.Context) error {
		if err := view.CheckEviction(ctx); err != nil {
			b.log.Warn("looking whether Redis drops keys", "error", err)
		}
		<-ctx.Done()
		return nil
	})
	b.service("store maintenance", loops, func(ctx context.Context) error {
		return kept.Run(ctx, func(err error) { b.log.Warn("maintaining the store", "error", err) })
	})
	origin, err := b.origin()
	if err != nil {
		return err
	}
	b.followSink(origin, sink.New(kept, b.config.Lastseen, b.lastseenRoom()))

	reader, err := kafka.NewReader(b.config.Kafka, b.log)
	if err != nil {
		return err
	}
	b.closeLater("status reader", func(context.Context) error { reader.Close(); return nil })
	project := projector.New(view, statuses(reader, origin, b.log), b.config.Lastseen, b.lastseenRoom(), b.log).Knowing(kept)
	b.follow(origin, "projector", projectorGroup, project, kafka.WatermarksOf(detectorGroup, schemas.Heartbeats))
	return nil
}

// statuses reads the newest status of every user of a partition. What came before
// a user's newest record may still be in the topic: compaction lags behind, and
// never touches its end.
func statuses(reader *kafka.Reader, origin *origin.Origin, log *slog.Logger) projector.Statuses {
	return func(ctx context.Context, partition int32, each func(schemas.Status) error) error {
		newest := map[string]*schemas.Status{} // by key
		tell := rate.Sometimes{First: 20, Interval: time.Second}
		err := reader.Read(ctx, schemas.Statuses, partition, -1, -1, true, func(r *schemas.Record) error {
			if r.Value == nil {
				delete(newest, string(r.Key))
				return nil
			}
			status, err := schemas.DecodeStatus(r.Value)
			if err == nil {
				err = origin.CheckStatus(r, status)
			}
			if bad := new(schemas.FieldError); err != nil && !errors.As(err, &bad) {
				return err
			}
			if err != nil {
				// One record must not keep a whole partition from being rebuilt.
				tell.Do(func() {
					log.Error("a status cannot be read and is left out", "partition", partition, "offset", r.Offset, "error", err)
				})
				return nil
			}
			newest[string(r.Key)] = status
			return nil
		})
		if err != nil {
			return err
		}
		for _, status := range newest {
			if err := each(*status); err != nil {
				return err
			}
		}
		return nil
	}
}

// fanoutRole publishes changes to those who are looking, and tells followers.
func fanoutRole(ctx context.Context, b *builder) error {
	bus, err := b.redisBus()
	if err != nil {
		return err
	}
	origin, err := b.origin()
	if err != nil {
		return err
	}
	b.follow(origin, "publisher", publishGroup, publish.New(bus, b.config.Fanout, b.fanoutRoom()), kafka.FromEnd())
	return b.followerFanout(ctx)
}

// apiRole answers reads and serves the stream.
func apiRole(ctx context.Context, b *builder) error {
	reader, err := b.presenceReader(ctx)
	if err != nil {
		return err
	}
	b.check("reads", b.answersReads)
	decision, err := b.decide(ctx)
	if err != nil {
		return err
	}
	reads := query.NewServer(reader, b.log)
	if decision != nil {
		reads.Ask(decision)
	}
	reads.Routes(b.mux)
	stream, err := b.liveStream(ctx)
	if err != nil {
		return err
	}
	b.mux.Handle("GET /presence/stream", stream)
	return nil
}

// answersReads tells whether a read is answered: from Redis or, as reads do when it takes
// too long, from the durable store.
func (b *builder) answersReads(ctx context.Context) error {
	quick, cancel := context.WithTimeout(ctx, b.config.Lastseen.RedisTimeout)
	defer cancel()
	redis := b.view.Ping(quick)
	if redis == nil {
		return nil
	}
	if store := b.store.Ping(ctx); store != nil {
		return errors.Join(redis, store)
	}
	return nil
}

// allRoles is every role in one process.
func allRoles(ctx context.Context, b *builder) error {
	for _, build := range []func(context.Context, *builder) error{detectorRole, lastseenRole, fanoutRole, ingestRole, apiRole} {
		if err := build(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// changes takes batches of transitions.
type changes = kafka.Handler[schemas.Logged[*schemas.Transition]]

// Both keep the offset of their own.
var (
	_ kafka.Starter = (*sink.Sink)(nil)
	_ kafka.Starter = (*projector.Projector)(nil)
)

// followSink adds the sink's loop, whose batches are as great as its transactions.
func (b *builder) followSink(origin *origin.Origin, write *sink.Sink) {
	cluster := b.config.Kafka
	cluster.MaxPollRecords = b.config.Lastseen.SinkRows
	b.followWith(origin, cluster, "sink", sinkGroup, write, kafka.Every(b.config.Lastseen.SinkEvery))
}

// follow adds a loop over the transitions.
func (b *builder) follow(origin *origin.Origin, name, group string, handler changes, options ...kafka.FollowOption) {
	b.followWith(origin, b.config.Kafka, name, group, handler, options...)
}

func (b *builder) followWith(origin *origin.Origin, cluster kafka.Config, name, group string, handler changes, options ...kafka.FollowOption) {
	f := kafka.Follow(cluster, group, schemas.Transitions, origin.Decode, handler, b.producer, b.log, b.streamMetrics, options...)
	b.service(name, loops, f.Run)
	b.check(name, func(context.Context) error { return f.Ready() })
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/quota"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// builder is a process under construction. What several roles of one process share
// is made once.
type builder struct {
	role       Role
	config     Config
	log        *slog.Logger
	registry   *prometheus.Registry
	partitions int32
	mux        *http.ServeMux
	services   []service
	checks     []check
	closers    []closer
	// followers are called with the settings of another policy when it comes into force.
	followers []func(Config)

	producer        *kafka.Producer
	streamMetrics   *kafka.Metrics
	lastseenMetrics *lastseen.Metrics
	fanoutMetrics   *fanout.Metrics
	ingestMetrics   *ingest.Metrics
	view            *redisview.View
	store           durable
	reader          *query.Reader
	bus             *redisbus.Bus
	stream          *live.Server
	perUser         *quota.Quota
	graph           graph.Store
	decision        *decision
	logOrigin       *origin.Origin
}

// durable is the store of last seen and of the log of changes.
type durable interface {
	tables
	store.Writer
	store.Reader
	Ping(ctx context.Context) error
	Run(ctx context.Context, failed func(error)) error
}

// closer gives something back when all services have stopped.
type closer struct {
	name  string
	close func(context.Context) error
}

// closeTimeout bounds each closer.
const closeTimeout = 10 * time.Second

// newBuilder looks whether Kafka is there and set up as it must be.
func newBuilder(ctx context.Context, role Role, config Config, log *slog.Logger) (*builder, error) {
	b := &builder{role: role, config: config, log: log, registry: prometheus.NewRegistry(), mux: http.NewServeMux()}
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.registry.MustRegister(buildInfo(config.Version))
	b.streamMetrics = kafka.NewMetrics(b.registry)
	partitions, err := kafka.CheckTopics(ctx, config.Kafka)
	if err != nil {
		return nil, err
	}
	b.partitions = partitions
	b.streamMetrics.Partitions(partitions)
	if err := b.takePolicy(ctx); err != nil {
		return nil, err
	}
	b.config.settle(partitions)
	b.producer, err = kafka.NewProducer(b.config.Kafka, log, b.streamMetrics)
	if err != nil {
		return nil, err
	}
	b.closeLater("producer", b.producer.Close)
	b.check("kafka", b.producer.Ping)
	b.service("topics", loops, func(ctx context.Context) error {
		kafka.WatchTopics(ctx, b.config.Kafka, partitions, config.TopicsEvery, log, b.streamMetrics)
		return nil
	})
	return b, nil
}

func (b *builder) service(name string, s stage, run func(context.Context) error) {
	b.services = append(b.services, service{name, s, run})
}

func (b *builder) check(name string, ready func(context.Context) error) {
	b.checks = append(b.checks, check{name, ready, b.role.rankOf(name), new(atomic.Bool)})
}

func (b *builder) closeLater(name string, close func(context.Context) error) {
	b.closers = append(b.closers, closer{name, close})
}

// close gives everything back, last made first.
func (b *builder) close(ctx context.Context) error {
	var faults []error
	for _, c := range slices.Backward(b.closers) {
		each, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		if err := c.close(each); err != nil {
			faults = append(faults, fmt.Errorf("closing the %s: %w", c.name, err))
		}
		cancel()
	}
	return errors.Join(faults...)
}

func (b *builder) lastseenRoom() *lastseen.Metrics {
	if b.lastseenMetrics == nil {
		b.lastseenMetrics = lastseen.NewMetrics(b.registry)
	}
	return b.lastseenMetrics
}

func (b *builder) fanoutRoom() *fanout.Metrics {
	if b.fanoutMetrics == nil {
		b.fanoutMetrics = fanout.NewMetrics(b.registry)
	}
	return b.fanoutMetrics
}

func (b *builder) ingestRoom() *ingest.Metrics {
	if b.ingestMetrics == nil {
		b.ingestMetrics = ingest.NewMetrics(b.registry)
	}
	return b.ingestMetrics
}

// redisView is the current status in Redis.
func (b *builder) redisView() (*redisview.View, error) {
	if b.view != nil {
		return b.view, nil
	}
	view, err := redisview.Open(b.config.Redis.view(b.config.Lastseen.RedisRetention))
	if err != nil {
		return nil, err
	}
	b.view = view
	b.watchView(view)
	b.closeLater("Redis view", func(context.Context) error { return view.Close() })
	b.check("redis", view.Ping)
	return view, nil
}

// redisBus carries changes to those who are looking.
func (b *builder) redisBus() (*redisbus.Bus, error) {
	if b.bus != nil {
		return b.bus, nil
	}
	bus, err := redisbus.Open(b.config.Redis.bus(), b.config.Fanout, b.fanoutRoom(), b.log)
	if err != nil {
		return nil, err
	}
	b.bus = bus
	b.watchBus(bus)
	b.closeLater("Redis bus", func(context.Context) error { return bus.Close() })
	return bus, nil
}

func (r Redis) bus() redisbus.Options {
	return redisbus.Options{
		Addr: r.Addr, Addrs: r.Addrs, Master: r.Master, Cluster: r.Cluster, Username: r.Username, Password: r.Password, Credentials: r.Credentials,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword, DB: r.DB, PoolSize: r.PoolSize, TLS: r.TLS, Dialer: r.Dialer, Prefix: r.Prefix,
	}
}

// durableStore keeps last seen and the log of changes.
func (b *builder) durableStore(ctx context.Context) (durable, error) {
	if b.store != nil {
		return b.store, nil
	}
	if path := b.config.Store.SQLite; path != "" {
		config := sqlitestore.Defaults()
		config.Path, config.AuditRetention = path, b.config.Lastseen.AuditRetention
		s, err := sqlitestore.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		b.store = s
		b.closeLater("SQLite store", func(context.Context) error { return s.Close() })
	} else {
		s, err := pgstore.Open(ctx, b.config.postgres())
		if err != nil {
			return nil, err
		}
		b.store = s
		b.watchPostgres(s)
		b.registry.MustRegister(s)
		b.closeLater("Postgres store", func(context.Context) error { s.Close(); return nil })
	}
	b.check("store", b.store.Ping)
	b.watchSchema("durable store", b.store)
	return b.store, nil
}

// presenceReader tells who is here.
func (b *builder) presenceReader(ctx context.Context) (*query.Reader, error) {
	if b.reader != nil {
		return b.reader, nil
	}
	view, err := b.redisView()
	if err != nil {
		return nil, err
	}
	kept, err := b.durableStore(ctx)
	if err != nil {
		return nil, err
	}
	b.reader = query.NewReader(view, kept, b.partitions, b.config.Lastseen, b.lastseenRoom())
	return b.reader, nil
}

// connections are what each user has open at all doors of the process.
func (b *builder) connections() *quota.Quota {
	if b.perUser == nil {
		b.perUser = quota.New(b.config.MaxPerUser)
	}
	return b.perUser
}

// liveStream serves those who are looking.
func (b *builder) liveStream(ctx context.Context) (*live.Server, error) {
	if b.stream != nil {
		return b.stream, nil
	}
	reader, err := b.presenceReader(ctx)
	if err != nil {
		return nil, err
	}
	bus, err := b.redisBus()
	if err != nil {
		return nil, err
	}
	decision, err := b.decide(ctx)
	if err != nil {
		return nil, err
	}
	dependencies := live.Dependencies{Bus: bus, Recent: bus.Recent, View: reader.Read, Viewer: viewerOf, Exempt: isAdmin, PerUser: b.connections(),
		Deliveries: func(ctx context.Context, take func(*schemas.Delivery)) error {
			return bus.RunDeliveries(ctx, take, nil)
		},
		Metrics: b.fanoutRoom(), Log: b.log}
	if decision != nil && decision.follows != nil {
		dependencies.MayWatch, dependencies.MayBeTold = decision.mayWatch, decision.mayReceive
	}
	b.stream, err = live.New(b.config.Fanout, dependencies)
	if err != nil {
		return nil, err
	}
	b.service("live stream", doors, b.stream.Run)
	b.onPolicy(func(c Config) { b.stream.Follow(c.Fanout.HeartbeatInterval) })
	return b.stream, nil
}

// origin is made once in a process.
func (b *builder) origin() (*origin.Origin, error) {
	if b.logOrigin == nil {
		reader, err := kafka.NewReader(b.config.Kafka, b.log)
		if err != nil {
			return nil, err
		}
		b.closeLater("reader of the detector's commits", func(context.Context) error { reader.Close(); return nil })
		b.logOrigin = origin.New(b.config.Kafka, reader, b.partitions)
	}
	return b.logOrigin, nil
}

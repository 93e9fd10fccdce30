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
	"github.com/stillhere/stillhere/internal/quota"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// house is a process under construction. What several roles of one process share
// is made once.
type house struct {
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
	ofThisLog       *Origin
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

// newHouse looks whether Kafka is there and set up as it must be.
func newHouse(ctx context.Context, role Role, config Config, log *slog.Logger) (*house, error) {
	h := &house{role: role, config: config, log: log, registry: prometheus.NewRegistry(), mux: http.NewServeMux()}
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h.registry.MustRegister(buildInfo(config.Version))
	h.streamMetrics = kafka.NewMetrics(h.registry)
	partitions, err := kafka.CheckTopics(ctx, config.Kafka)
	if err != nil {
		return nil, err
	}
	h.partitions = partitions
	h.streamMetrics.Partitions(partitions)
	if err := h.takePolicy(ctx); err != nil {
		return nil, err
	}
	h.config.settle(partitions)
	h.producer, err = kafka.NewProducer(h.config.Kafka, log, h.streamMetrics)
	if err != nil {
		return nil, err
	}
	h.closeLater("producer", h.producer.Close)
	h.check("kafka", h.producer.Ping)
	h.service("topics", loops, func(ctx context.Context) error {
		kafka.WatchTopics(ctx, h.config.Kafka, partitions, config.TopicsEvery, log, h.streamMetrics)
		return nil
	})
	return h, nil
}

func (h *house) service(name string, s stage, run func(context.Context) error) {
	h.services = append(h.services, service{name, s, run})
}

func (h *house) check(name string, ready func(context.Context) error) {
	h.checks = append(h.checks, check{name, ready, h.role.rankOf(name), new(atomic.Bool)})
}

func (h *house) closeLater(name string, close func(context.Context) error) {
	h.closers = append(h.closers, closer{name, close})
}

// close gives everything back, last made first.
func (h *house) close(ctx context.Context) error {
	var faults []error
	for _, c := range slices.Backward(h.closers) {
		each, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		if err := c.close(each); err != nil {
			faults = append(faults, fmt.Errorf("closing the %s: %w", c.name, err))
		}
		cancel()
	}
	return errors.Join(faults...)
}

func (h *house) lastseenRoom() *lastseen.Metrics {
	if h.lastseenMetrics == nil {
		h.lastseenMetrics = lastseen.NewMetrics(h.registry)
	}
	return h.lastseenMetrics
}

func (h *house) fanoutRoom() *fanout.Metrics {
	if h.fanoutMetrics == nil {
		h.fanoutMetrics = fanout.NewMetrics(h.registry)
	}
	return h.fanoutMetrics
}

func (h *house) ingestRoom() *ingest.Metrics {
	if h.ingestMetrics == nil {
		h.ingestMetrics = ingest.NewMetrics(h.registry)
	}
	return h.ingestMetrics
}

// redisView is the current status in Redis.
func (h *house) redisView() (*redisview.View, error) {
	if h.view != nil {
		return h.view, nil
	}
	view, err := redisview.Open(h.config.Redis.view(h.config.Lastseen.RedisRetention))
	if err != nil {
		return nil, err
	}
	h.view = view
	h.watchView(view)
	h.closeLater("Redis view", func(context.Context) error { return view.Close() })
	h.check("redis", view.Ping)
	return view, nil
}

// redisBus carries changes to those who are looking.
func (h *house) redisBus() (*redisbus.Bus, error) {
	if h.bus != nil {
		return h.bus, nil
	}
	bus, err := redisbus.Open(h.config.Redis.bus(), h.config.Fanout, h.fanoutRoom(), h.log)
	if err != nil {
		return nil, err
	}
	h.bus = bus
	h.watchBus(bus)
	h.closeLater("Redis bus", func(context.Context) error { return bus.Close() })
	return bus, nil
}

func (r Redis) bus() redisbus.Options {
	return redisbus.Options{
		Addr: r.Addr, Addrs: r.Addrs, Master: r.Master, Cluster: r.Cluster, Username: r.Username, Password: r.Password, Credentials: r.Credentials,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword, DB: r.DB, PoolSize: r.PoolSize, TLS: r.TLS, Dialer: r.Dialer, Prefix: r.Prefix,
	}
}

// durableStore keeps last seen and the log of changes.
func (h *house) durableStore(ctx context.Context) (durable, error) {
	if h.store != nil {
		return h.store, nil
	}
	if path := h.config.Store.SQLite; path != "" {
		config := sqlitestore.Defaults()
		config.Path, config.AuditRetention = path, h.config.Lastseen.AuditRetention
		s, err := sqlitestore.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		h.store = s
		h.closeLater("SQLite store", func(context.Context) error { return s.Close() })
	} else {
		s, err := pgstore.Open(ctx, h.config.postgres())
		if err != nil {
			return nil, err
		}
		h.store = s
		h.watchPostgres(s)
		h.registry.MustRegister(s)
		h.closeLater("Postgres store", func(context.Context) error { s.Close(); return nil })
	}
	h.check("store", h.store.Ping)
	h.watchTables("durable store", h.store)
	return h.store, nil
}

// presenceReader tells who is here.
func (h *house) presenceReader(ctx context.Context) (*query.Reader, error) {
	if h.reader != nil {
		return h.reader, nil
	}
	view, err := h.redisView()
	if err != nil {
		return nil, err
	}
	kept, err := h.durableStore(ctx)
	if err != nil {
		return nil, err
	}
	h.reader = query.NewReader(view, kept, h.partitions, h.config.Lastseen, h.lastseenRoom())
	return h.reader, nil
}

// connections are what each user has open at all doors of the process.
func (h *house) connections() *quota.Quota {
	if h.perUser == nil {
		h.perUser = quota.New(h.config.MaxPerUser)
	}
	return h.perUser
}

// liveStream serves those who are looking.
func (h *house) liveStream(ctx context.Context) (*live.Server, error) {
	if h.stream != nil {
		return h.stream, nil
	}
	reader, err := h.presenceReader(ctx)
	if err != nil {
		return nil, err
	}
	bus, err := h.redisBus()
	if err != nil {
		return nil, err
	}
	decision, err := h.decide(ctx)
	if err != nil {
		return nil, err
	}
	dependencies := live.Dependencies{Bus: bus, Recent: bus.Recent, View: reader.Read, Viewer: viewerOf, Exempt: isAdmin, PerUser: h.connections(),
		Deliveries: func(ctx context.Context, take func(*schemas.Delivery)) error {
			return bus.RunDeliveries(ctx, take, nil)
		},
		Metrics: h.fanoutRoom(), Log: h.log}
	if decision != nil && decision.follows != nil {
		dependencies.MayWatch, dependencies.MayBeTold = decision.mayWatch, decision.mayBeTold
	}
	h.stream, err = live.New(h.config.Fanout, dependencies)
	if err != nil {
		return nil, err
	}
	h.service("live stream", doors, h.stream.Run)
	h.onPolicy(func(c Config) { h.stream.Follow(c.Fanout.HeartbeatInterval) })
	return h.stream, nil
}

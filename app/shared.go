package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/cursor"
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

// shared are the parts that several roles of one process use. Each is made on first use.
type shared struct {
	view            *redisview.View
	bus             *redisbus.Bus
	store           durableStore
	reader          *query.Reader
	graph           *graph.Store
	decision        *decision
	keys            *cursor.Keys
	stream          *live.Server
	origin          *origin.Origin
	quota           *quota.Quota[schemas.UserID]
	ingestMetrics   *ingest.Metrics
	lastseenMetrics *lastseen.Metrics
	fanoutMetrics   *fanout.Metrics
}

// share returns *part. On first use it makes the part and adds its component to the process.
func share[T comparable](b *builder, part *T, make func() (T, component, error)) (T, error) {
	var none T
	if *part != none {
		return *part, nil
	}
	made, c, err := make()
	if err := b.add(c, err); err != nil {
		return none, err
	}
	*part = made
	return made, nil
}

// shareValue is share of a part that cannot fail and adds nothing to the process.
func shareValue[T any](part **T, make func() *T) *T {
	if *part == nil {
		*part = make()
	}
	return *part
}

func (b *builder) useIngestMetrics() *ingest.Metrics {
	return shareValue(&b.ingestMetrics, func() *ingest.Metrics { return ingest.NewMetrics(b.registry) })
}

func (b *builder) useLastseenMetrics() *lastseen.Metrics {
	return shareValue(&b.lastseenMetrics, func() *lastseen.Metrics { return lastseen.NewMetrics(b.registry) })
}

func (b *builder) useFanoutMetrics() *fanout.Metrics {
	return shareValue(&b.fanoutMetrics, func() *fanout.Metrics { return fanout.NewMetrics(b.registry) })
}

// useQuota counts the sockets and streams of each user, over all endpoints of the process.
func (b *builder) useQuota() *quota.Quota[schemas.UserID] {
	return shareValue(&b.quota, func() *quota.Quota[schemas.UserID] {
		q := quota.New[schemas.UserID](b.config.MaxPerUser)
		b.onChange = append(b.onChange, func(c Config) { q.Allow(c.MaxPerUser) })
		return q
	})
}

func (b *builder) useView() (*redisview.View, error) {
	return share(b, &b.view, func() (*redisview.View, component, error) { return newRedisView(b.base) })
}

// newRedisView opens the current status in Redis.
func newRedisView(p base) (*redisview.View, component, error) {
	view, err := redisview.Open(p.redis, p.config.Lastseen.RedisRetention)
	if err != nil {
		return nil, component{}, err
	}
	registerRedisPool(p.registry, "redis_view", view.PoolStats)
	return view, component{
		closers: []closer{{"Redis view", func(context.Context) error { return view.Close() }}},
		checks:  []check{{name: "redis", ready: view.Ping}},
	}, nil
}

func (b *builder) useBus() (*redisbus.Bus, error) {
	return share(b, &b.bus, func() (*redisbus.Bus, component, error) { return newRedisBus(b.base, b.useFanoutMetrics()) })
}

// newRedisBus opens the bus that carries changes to viewers.
func newRedisBus(p base, metrics *fanout.Metrics) (*redisbus.Bus, component, error) {
	bus, err := redisbus.Open(p.redis, p.config.Fanout, metrics, p.log)
	if err != nil {
		return nil, component{}, err
	}
	registerRedisPool(p.registry, "redis_bus", bus.PoolStats)
	return bus, component{closers: []closer{{"Redis bus", func(context.Context) error { return bus.Close() }}}}, nil
}

// durableStore keeps last seen and the log of changes.
type durableStore interface {
	schemaReporter
	erasingStore
	store.Reader
	store.Namer
	store.TenantLog
	ExportStore
	Ping(ctx context.Context) error
	Run(ctx context.Context, failed func(error)) error
}

func (b *builder) useStore(ctx context.Context) (durableStore, error) {
	return share(b, &b.store, func() (durableStore, component, error) { return newStore(ctx, b.base) })
}

// newStore opens SQLite or Postgres.
func newStore(ctx context.Context, p base) (opened durableStore, c component, err error) {
	if path := p.config.Store.SQLite; path != "" {
		config := sqlitestore.Defaults()
		config.Path, config.AuditRetention = path, p.config.Lastseen.AuditRetention
		s, err := sqlitestore.Open(ctx, config)
		if err != nil {
			return nil, c, err
		}
		opened, c.closers = s, []closer{{"SQLite store", func(context.Context) error { return s.Close() }}}
	} else {
		s, err := pgstore.Open(ctx, p.config.postgres())
		if err != nil {
			return nil, c, err
		}
		registerPostgresPool(p.registry, s)
		s.Register(p.registry)
		opened, c = s, closing("Postgres store", s.Close)
	}
	c.checks = []check{{name: "store", ready: opened.Ping}}
	return opened, c.with(schemaWatch("durable store", opened, p.log)), nil
}

// useReader answers which users are online, away or offline.
func (b *builder) useReader(ctx context.Context) (*query.Reader, error) {
	view, err := b.useView()
	if err != nil {
		return nil, err
	}
	durable, err := b.useStore(ctx)
	if err != nil {
		return nil, err
	}
	return share(b, &b.reader, func() (*query.Reader, component, error) {
		reader := query.NewReader(view, durable, b.partitions, b.config.Lastseen, b.useLastseenMetrics())
		return reader, component{services: []service{{"watermarks of reads", loops, reader.Watch}}}, nil
	})
}

// useKeys seals cursors. The key of the deployment is in Redis.
func (b *builder) useKeys() (*cursor.Keys, error) {
	view, err := b.useView()
	if err != nil {
		return nil, err
	}
	return shareValue(&b.keys, func() *cursor.Keys { return cursor.NewKeys(view.KeepCursorKey) }), nil
}

func (b *builder) useGraph(ctx context.Context) (*graph.Store, error) {
	return share(b, &b.graph, func() (*graph.Store, component, error) { return newGraph(ctx, b.base) })
}

// newGraph opens the follower graph.
func newGraph(ctx context.Context, p base) (*graph.Store, component, error) {
	g, err := OpenGraph(ctx, p.config.Graph, p.config.Postgres)
	if err != nil {
		return nil, component{}, err
	}
	c := closing("follower graph", g.Close)
	c.checks = []check{{name: "follower graph", ready: g.Ping}}
	return g, c.with(schemaWatch("follower graph", g, p.log)), nil
}

// useDecision returns nil if there are no restrictions: without tokens the process does not
// know its callers, unless viewers name themselves and only followers may watch.
func (b *builder) useDecision(ctx context.Context) (*decision, error) {
	d := &decision{history: b.config.MayReadHistory, users: b.cluster.Users}
	if b.config.MayWatch == WatchFollowers {
		g, err := b.useGraph(ctx)
		if err != nil {
			return nil, err
		}
		d.follows = g
	}
	if d.follows == nil && !b.config.Auth.On() {
		return nil, nil
	}
	return shareValue(&b.decision, func() *decision { return d }), nil
}

func (b *builder) useOrigin() (*origin.Origin, error) {
	return share(b, &b.origin, func() (*origin.Origin, component, error) {
		reader, err := kafka.NewReader(b.cluster, b.log)
		if err != nil {
			return nil, component{}, err
		}
		return origin.New(b.cluster, reader, b.partitions), closing("reader of the detector's commits", reader.Close), nil
	})
}

func (b *builder) useStream(ctx context.Context) (*live.Server, error) {
	reader, err := b.useReader(ctx)
	if err != nil {
		return nil, err
	}
	bus, err := b.useBus()
	if err != nil {
		return nil, err
	}
	keys, err := b.useKeys()
	if err != nil {
		return nil, err
	}
	access, err := b.useDecision(ctx)
	if err != nil {
		return nil, err
	}
	return share(b, &b.stream, func() (*live.Server, component, error) {
		return newStream(b.config.Fanout, access, bus, live.Dependencies{
			View: reader.Read, Users: b.cluster.Users, Keys: keys,
			Missed: reader.Missed, PerUser: b.useQuota(), Tenants: b.accounts, Metrics: b.useFanoutMetrics(), Log: b.log,
		})
	})
}

// newStream makes the server of the live stream. access may be nil.
func newStream(config fanout.Config, access *decision, bus *redisbus.Bus, d live.Dependencies) (*live.Server, component, error) {
	d.Bus, d.Recent, d.Exempt = bus, bus.Recent, isAdmin
	d.Viewer = func(r *http.Request) schemas.UserID { return viewerOf(r, d.Users) }
	d.ViewerName = func(r *http.Request) schemas.Name { return viewerName(r, d.Users) }
	d.Tenant = func(r *http.Request) (string, error) { return ingest.TenantOf(r, d.Users) }
	d.Deliveries = func(ctx context.Context, take func(*schemas.Delivery)) error {
		return bus.RunDeliveries(ctx, take, nil)
	}
	if access != nil && access.follows != nil {
		d.MayWatch, d.MayReceive = access.mayWatch, access.mayReceive
	}
	stream, err := live.New(config, d)
	if err != nil {
		return nil, component{}, fmt.Errorf("live stream: %w", err)
	}
	return stream, component{
		services: []service{{"live stream", servers, stream.Run}},
		onChange: []func(Config){func(c Config) { stream.Follow(c.Policy.Schedule(), c.Fanout.TenantSchedules); stream.Limit(c.Fanout) }},
	}, nil
}

package app

import (
	"cmp"
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
	graph           *graph.Store // nil: there is none
	decision        *decision    // nil: no restrictions
	keys            *cursor.Keys
	stream          *live.Server
	origin          *origin.Origin
	quota           *quota.Quota[schemas.UserID]
	lastseenMetrics *lastseen.Metrics
	fanoutMetrics   *fanout.Metrics
}

// use makes the parts that a role uses, each unless another role of the process has made it.
func (b *builder) use(ctx context.Context, parts ...func(context.Context) error) error {
	for _, use := range parts {
		if err := use(ctx); err != nil {
			return err
		}
	}
	return nil
}

// share makes a part on first use, and adds its component to the process.
func share[T comparable](b *builder, part *T, make func() (T, component, error)) error {
	var none T
	if *part != none {
		return nil
	}
	made, c, err := make()
	if err := b.add(c, err); err != nil {
		return err
	}
	*part = made
	return nil
}

// shareValue returns a part that cannot fail and adds nothing to the process.
func shareValue[T any](part **T, make func() *T) *T {
	if *part == nil {
		*part = make()
	}
	return *part
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

// useView opens the current status in Redis.
func (b *builder) useView(context.Context) error {
	return share(b, &b.view, func() (*redisview.View, component, error) {
		view, err := redisview.Open(b.redis, b.config.Lastseen.RedisRetention)
		if err != nil {
			return nil, component{}, err
		}
		registerRedisPool(b.registry, "redis_view", view.PoolStats)
		return view, component{
			closers: []closer{{"Redis view", func(context.Context) error { return view.Close() }}},
			checks:  []check{{name: "redis", ready: view.Ping}},
		}, nil
	})
}

// useBus opens the bus that carries changes to viewers.
func (b *builder) useBus(context.Context) error {
	return share(b, &b.bus, func() (*redisbus.Bus, component, error) {
		bus, err := redisbus.Open(b.redis, b.config.Fanout, b.useFanoutMetrics(), b.log)
		if err != nil {
			return nil, component{}, err
		}
		registerRedisPool(b.registry, "redis_bus", bus.PoolStats)
		return bus, component{closers: []closer{{"Redis bus", func(context.Context) error { return bus.Close() }}}}, nil
	})
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

func (b *builder) useStore(ctx context.Context) error {
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
func (b *builder) useReader(ctx context.Context) error {
	if err := b.use(ctx, b.useView, b.useStore); err != nil {
		return err
	}
	return share(b, &b.reader, func() (*query.Reader, component, error) {
		reader := query.NewReader(b.view, b.store, b.partitions, b.config.Lastseen, b.useLastseenMetrics())
		reader.Follow(b.config.policyOf)
		return reader, component{services: []service{{"watermarks of reads", loops, reader.Watch}},
			onChange: []func(Config){func(c Config) { reader.Follow(c.policyOf) }}}, nil
	})
}

// useGraph opens the follower graph.
func (b *builder) useGraph(ctx context.Context) error {
	return share(b, &b.graph, func() (*graph.Store, component, error) {
		g, err := OpenGraph(ctx, b.config.Graph, b.config.Postgres)
		if err != nil {
			return nil, component{}, err
		}
		c := closing("follower graph", g.Close)
		c.checks = []check{{name: "follower graph", ready: g.Ping}}
		return g, c.with(schemaWatch("follower graph", g, b.log)), nil
	})
}

// useGraphIfAny opens the follower graph if there is one.
func (b *builder) useGraphIfAny(ctx context.Context) error {
	if b.config.Graph == (Store{}) {
		return nil
	}
	return b.useGraph(ctx)
}

// useDecision makes none if there are no restrictions: without tokens the process does not
// know its callers, unless viewers name themselves and only followers may watch.
func (b *builder) useDecision(ctx context.Context) error {
	d := &decision{history: b.config.MayReadHistory, users: b.cluster.Users}
	if b.config.MayWatch == WatchFollowers {
		if err := b.useGraph(ctx); err != nil {
			return err
		}
		d.follows = b.graph
	}
	if b.decision == nil && (d.follows != nil || b.config.Auth.On()) {
		b.decision = d
	}
	return nil
}

func (b *builder) useOrigin(context.Context) error {
	return share(b, &b.origin, func() (*origin.Origin, component, error) {
		reader, err := kafka.NewReader(b.cluster, b.log)
		if err != nil {
			return nil, component{}, err
		}
		return origin.New(b.cluster, reader, b.partitions), closing("reader of the detector's commits", reader.Close), nil
	})
}

// useStream makes the live stream, and what seals its cursors: the key of the deployment is in Redis.
func (b *builder) useStream(ctx context.Context) error {
	if err := b.use(ctx, b.useReader, b.useBus, b.useDecision); err != nil {
		return err
	}
	b.keys = cmp.Or(b.keys, cursor.NewKeys(b.view.KeepCursorKey))
	return share(b, &b.stream, func() (*live.Server, component, error) {
		return newStream(b.config.Fanout, b.decision, b.bus, live.Dependencies{
			View: b.reader.Read, Denying: b.reader.Denying, Denied: b.reader.Denied, Users: b.cluster.Users, Keys: b.keys,
			Missed: b.reader.Missed, PerUser: b.useQuota(), Tenants: b.accounts, Metrics: b.useFanoutMetrics(), Log: b.log,
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

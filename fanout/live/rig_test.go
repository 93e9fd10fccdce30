package live_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/fanout/publish"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const waitLimit = 30 * time.Second

// view stands in for the current status. A test may hold it back, make it stale, or break it.
type view struct {
	mu    sync.Mutex
	users map[schemas.UserID]schemas.Current
	stale schemas.Millis
	err   error
	reads map[schemas.UserID]int

	unsure map[schemas.UserID]schemas.Millis
}

func newView() *view {
	return &view{users: make(map[schemas.UserID]schemas.Current), reads: make(map[schemas.UserID]int)}
}

// Read takes users of tenant evil for strangers.
func (v *view) Read(_ context.Context, ids []schemas.UserID, names []schemas.Name) ([]schemas.Presence, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return nil, v.err
	}
	out := make([]schemas.Presence, len(ids))
	for i, id := range ids {
		v.reads[id]++
		if c, ok := v.users[id]; names != nil && names[i].Tenant == "evil" {
			out[i] = schemas.PresenceOf(schemas.Current{User: id, Visibility: schemas.Nobody}, 0, 0)
		} else if ok {
			out[i] = schemas.PresenceOf(c, v.stale, schemas.MillisOf(time.Now()))
			out[i].UnsureSince = v.unsure[id]
		} else {
			out[i] = schemas.NeverSeen(id, v.stale)
		}
	}
	return out, nil
}

func (v *view) apply(ts ...*schemas.Transition) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range ts {
		v.users[t.User] = kept(v.users[t.User], t)
	}
}

func (v *view) makeUnsure(id schemas.UserID, since schemas.Millis) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unsure = map[schemas.UserID]schemas.Millis{id: since}
}

func (v *view) set(stale schemas.Millis, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stale, v.err = stale, err
}

// readsOf returns how often id has been read.
func (v *view) readsOf(id schemas.UserID) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reads[id]
}

func (v *view) one(t *testing.T, id schemas.UserID) schemas.Presence {
	t.Helper()
	users := must.Get(v.Read(t.Context(), []schemas.UserID{id}, nil))(t)
	return users[0]
}

// rig is publish, redisbus and live as app connects them, with a view of its own.
type rig struct {
	t       *testing.T
	redis   *redistest.Server
	bus     *tappedBus
	handler *publish.Handler
	view    *view
	server  *live.Server
	http    *httptest.Server
	metrics *fanout.Metrics
	stop    func() // stops the server and waits
}

// tappedBus lets a test wait for the bus to have connected.
type tappedBus struct {
	*redisbus.Bus
	connected chan struct{}
}

type tap struct {
	fanout.Receiver
	connected chan struct{}
}

func (b *tappedBus) Run(ctx context.Context, r fanout.Receiver) error {
	return b.Bus.Run(ctx, tap{r, b.connected})
}

func (t tap) Connected() {
	t.Receiver.Connected()
	t.connected <- struct{}{}
}

func newRig(t *testing.T, r *redistest.Server, tweaks ...func(*fanout.Config)) *rig {
	t.Helper()
	return newRigOf(t, r, identity.Users{}, tweaks...)
}

// newRigOf is newRig with users who may have names.
func newRigOf(t *testing.T, r *redistest.Server, users identity.Users, tweaks ...func(*fanout.Config)) *rig {
	t.Helper()
	return newRigWith(t, r, users, nil, tweaks...)
}

// newRigWith is newRigOf with quotas of tenants.
func newRigWith(t *testing.T, r *redistest.Server, users identity.Users, accounts *tenants.Accounts, tweaks ...func(*fanout.Config)) *rig {
	t.Helper()
	cfg := fanout.DefaultConfig()
	cfg.RefreshInterval = 20 * time.Millisecond
	cfg.PingInterval = time.Hour // a peer answers only while it reads, and a loaded machine has it wait
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	metrics := fanout.NewMetrics(nil)
	bus := must.Get(redisbus.Open(redisbus.Options{Addr: r.Addr, Dialer: r.Dial}, cfg, metrics, nil))(t)
	tapped := &tappedBus{bus, make(chan struct{}, 1000)}
	v := newView()
	server := must.Get(live.New(cfg, live.Dependencies{Bus: tapped, Recent: bus.Recent, View: v.Read, Metrics: metrics,
		Users: users, Tenant: tenantOf, Tenants: accounts}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	g := &rig{t: t, redis: r, bus: tapped, handler: publish.New(bus, cfg, metrics), view: v, server: server,
		http: httptest.NewServer(server), metrics: metrics}
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		g.stop()
		g.http.Close()
		bus.Close()
	})
	g.awaitConnected()
	g.awaitReread()
	return g
}

// awaitReread waits for the server to have read all watched users after the bus connected: a later
// read brings a change as a correction.
func (g *rig) awaitReread() {
	g.t.Helper()
	g.await(func() bool { return valueOf(g.metrics.Reread) > 0 }, func() string { return "the watched users were never read again" })
}

func (g *rig) await(holds func() bool, otherwise func() string) {
	g.t.Helper()
	deadline := time.After(waitLimit)
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for !holds() {
		select {
		case <-every.C:
		case <-deadline:
			g.t.Fatal(otherwise())
		}
	}
}

func (g *rig) awaitConnected() {
	g.t.Helper()
	select {
	case <-g.bus.connected:
	case <-time.After(waitLimit):
		g.t.Fatal("the bus never connected")
	}
}

// publish does what the consumer does with a batch of presence.transitions.
func (g *rig) publish(ts ...*schemas.Transition) {
	g.t.Helper()
	batch := stream.Batch[stream.Logged[*schemas.Transition]]{Next: 1}
	for _, t := range ts {
		batch.Items = append(batch.Items, stream.Logged[*schemas.Transition]{Message: t})
	}
	for try := 0; ; try++ {
		err := g.handler.Apply(g.t.Context(), batch)
		if err == nil {
			return
		}
		if try == 100 {
			g.t.Fatal(err)
		}
	}
}

// happen publishes and lets the view know.
func (g *rig) happen(ts ...*schemas.Transition) {
	g.t.Helper()
	g.view.apply(ts...)
	g.publish(ts...)
}

// gone waits until no subscription is left.
func (g *rig) gone() {
	g.t.Helper()
	left := func() (subscriptions, users, channels float64) {
		return valueOf(g.metrics.Subscriptions), valueOf(g.metrics.Watched), valueOf(g.metrics.Channels)
	}
	g.await(func() bool { s, u, c := left(); return s+u+c == 0 }, func() string {
		s, u, c := left()
		return fmt.Sprintf("left over: %v subscriptions, %v users, %v channels", s, u, c)
	})
}

// person makes the transitions of one user, each one version after the last.
type person struct {
	id      schemas.UserID
	version schemas.Version
	state   schemas.State
	hidden  bool
}

func (p *person) becomes(to schemas.State) *schemas.Transition {
	return p.step(to, schemas.ActiveAgain)
}

func (p *person) hides(yes bool) *schemas.Transition {
	p.hidden = yes
	return p.step(p.state, schemas.VisibilityChange)
}

func (p *person) step(to schemas.State, cause schemas.Cause) *schemas.Transition {
	p.version++
	from := p.state
	if from == 0 {
		from = schemas.Offline
	}
	if to == 0 {
		to = from
	}
	p.state = to
	visibility := schemas.Everyone
	if p.hidden {
		visibility = schemas.Nobody
	}
	at := schemas.Millis(1_763_700_000_000) + schemas.Millis(p.version)*1000
	return &schemas.Transition{User: p.id, From: from, To: to, At: at, LastSeen: at - 5, LastActive: at - 7, Cause: cause, Device: 1,
		Kinds: schemas.SetOfKinds(schemas.Mobile), Visibility: visibility, Version: p.version, Policy: "p"}
}

// flips are n changes, some of which leave the state as it is.
func (p *person) flips(n int) []*schemas.Transition {
	order := []schemas.State{schemas.Online, schemas.Online, schemas.Away, schemas.Offline}
	var ts []*schemas.Transition
	for i := range n {
		ts = append(ts, p.becomes(order[i%len(order)]))
	}
	return ts
}

// valueOf reads a counter or gauge.
func valueOf(m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// run runs a server until the function that it returns is called.
func run(tb testing.TB, server *live.Server) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
}

// kept is what the stores keep of a user after t (lastseen/store.After): times stand still
// while the user hides, begin at the show and never go back.
func kept(c schemas.Current, t *schemas.Transition) schemas.Current {
	next := c.After(t)
	seen, active := t.LastSeen, t.LastActive
	switch turns := t.Cause == schemas.VisibilityChange; {
	case t.Visibility == schemas.Nobody && !turns:
		next.Since, seen, active = c.Since, 0, 0
	case t.Visibility == schemas.Nobody:
		if next.Since, seen, active = t.At, t.At, t.At; t.From == schemas.Offline {
			seen, active = t.LastSeen, t.LastActive
			if c.Version != 0 {
				next.Since = c.Since
			}
		}
	case turns:
		next.Since, seen, active = t.At, t.At, t.At
	}
	next.LastSeen, next.LastActive = max(c.LastSeen, seen), max(c.LastActive, active)
	return next
}

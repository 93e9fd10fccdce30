package socketgate

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/quota"
	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// OpenStream opens the stream of one socket. It has plain types, so that another service can
// provide it.
//
// user is the watching user; name is what it is called, with --ids text, and its tenant is that of the users whom
// the socket may watch;
// mayWatchAny is set for administrators. send writes a text message to the socket, from any
// goroutine, and blocks until the socket has taken it or the write timeout has ended the socket;
// after an error every further send fails.
//
// handle gets a message of the client, valid during the call, and returns whether the stream knows
// its type; the stream answers its own errors. It is called from one goroutine. close ends the
// stream; it is called once, after the last handle, and no send may begin after it has returned.
type OpenStream = func(user schemas.UserID, name schemas.Name, mayWatchAny bool,
	send func(message []byte) error) (handle func(message []byte) bool, close func())

// Gate serves the WebSocket endpoint.
type Gate struct {
	perUser *quota.Quota[schemas.UserID] // of sockets and streams; nil: any number
	cfg     ingest.Config
	open    OpenStream
	metrics *ingest.Metrics
	start   time.Time
	pace    atomic.Pointer[pace]
	devices *beat.Registry
	tenants *tenants.Accounts // nil: tenants have no quotas

	mu       sync.Mutex // never held while anything blocks
	stopping bool
	count    int                  // sockets and handshakes
	sockets  map[*connection]bool // those after the handshake
	running  sync.WaitGroup
}

// New makes a gate whose sockets report to beats, of which an error ends the socket. If open is nil
// there is no stream.
func New(cfg ingest.Config, beats beat.Reporter, open OpenStream, metrics *ingest.Metrics) (*Gate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gate{cfg: cfg, open: open, metrics: metrics, start: time.Now(),
		devices: beat.NewRegistry(beats), sockets: map[*connection]bool{}}
	g.Follow(cfg)
	return g, nil
}

// pace is the part of the configuration that follows the policy. It is never changed.
type pace struct {
	interval   time.Duration
	idle       time.Duration
	hello      []byte
	maxMessage int
	tenants    map[string]*pace // of tenants with policies of their own
}

// paceOf is the pace of the sockets of a user; name is nil in int mode.
func (g *Gate) paceOf(name *schemas.Name) *pace {
	p := g.pace.Load()
	if name != nil {
		if own, ok := p.tenants[name.Tenant]; ok {
			return own
		}
	}
	return p
}

// Follow applies HeartbeatInterval, Intervals and Sockets.HeartbeatJitter, IdleTimeout, Tenants and MaxSubscriptions
// of cfg.
// Open sockets get another hello within Sockets.PingInterval. MaxMessage is for new sockets.
func (g *Gate) Follow(cfg ingest.Config) {
	schedule := schemas.ScheduleOf(cfg.HeartbeatInterval, cfg.Sockets.HeartbeatJitter)
	all := &pace{interval: cfg.HeartbeatInterval, idle: cfg.Sockets.IdleTimeout, maxMessage: cfg.Sockets.MaxMessage,
		tenants: map[string]*pace{}, hello: schemas.HelloMessage(schedule, cfg.Sockets.MaxSubscriptions)}
	for tenant, own := range cfg.Sockets.Tenants {
		all.tenants[tenant] = &pace{interval: own.Schedule.Interval, idle: own.IdleTimeout, maxMessage: all.maxMessage,
			hello: schemas.HelloMessage(own.Schedule, cfg.Sockets.MaxSubscriptions)}
	}
	g.pace.Store(all)
}

// LimitPerUser sets the bound on sockets of one user. Call it before Routes.
func (g *Gate) LimitPerUser(perUser *quota.Quota[schemas.UserID]) { g.perUser = perUser }

// BoundTenants makes the gate keep to the quotas of tenants. Call it before Routes.
func (g *Gate) BoundTenants(accounts *tenants.Accounts) { g.tenants = accounts }

func (g *Gate) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /presence/connect", g.connect)
}

// Run serves until ctx ends. Then it refuses new sockets, asks the open ones to reconnect
// elsewhere and returns nil when all are closed, after DrainTimeout by force. Close the client
// after it.
func (g *Gate) Run(ctx context.Context) error {
	<-ctx.Done()
	g.mu.Lock()
	g.stopping = true
	for s := range g.sockets {
		g.running.Go(s.drain)
	}
	g.mu.Unlock()
	timeout := time.AfterFunc(g.cfg.Sockets.DrainTimeout, g.abortAll)
	defer timeout.Stop()
	g.running.Wait()
	return nil
}

func (g *Gate) abortAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.sockets {
		s.conn.Abort()
	}
}

// enter counts a socket; false if there are too many. Pair with leave.
func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping || g.count >= g.cfg.Sockets.MaxSockets {
		return false
	}
	g.count++
	g.running.Add(1)
	g.metrics.Sockets.Inc()
	return true
}

// begin makes Run drain the socket when this process stops; false if it is stopping already.
func (g *Gate) begin(s *connection) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sockets[s] = true
	return !g.stopping
}

func (g *Gate) leave(s *connection) {
	g.mu.Lock()
	g.count--
	delete(g.sockets, s)
	g.mu.Unlock()
	g.perUser.Give(s.who.device.User)
	s.account.Disconnect()
	g.metrics.Sockets.Dec()
	g.running.Done()
}

// connect answers the handshake. The socket gets its own goroutine, which costs less than the HTTP
// server's.
func (g *Gate) connect(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, err error) {
		g.metrics.Answered("connect", strconv.Itoa(status))
		web.Write(w, status, err)
	}
	if err := g.cfg.CheckOrigin(r); err != nil {
		answer(http.StatusForbidden, err)
		return
	}
	caller := ingest.CallerOf(r.Context())
	who, err := parseClient(r, g.cfg.Users)
	if err == nil {
		err = caller.CheckSocketOf("user_id", who.device.User)
	}
	switch {
	case err == nil:
	case ingest.IsForbidden(err):
		answer(http.StatusForbidden, err)
		return
	default:
		answer(http.StatusBadRequest, err)
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		answer(http.StatusUpgradeRequired, &schemas.FieldError{Code: "upgrade_required", Reason: "this is a WebSocket"})
		return
	}
	if !g.perUser.Take(who.device.User) {
		w.Header().Set("Retry-After", strconv.Itoa(5+rand.IntN(10)))
		answer(http.StatusTooManyRequests,
			&schemas.FieldError{Code: "too_many_connections", Field: "user_id", Reason: "has " +
				strconv.Itoa(g.perUser.Most()) +
				" connections open already, which is all that one user may have; close one first"})
		return
	}
	account := g.tenants.Of(who.tenant())
	if over := who.admit(r.Context(), account); over != nil {
		g.perUser.Give(who.device.User)
		answer(http.StatusTooManyRequests, over)
		return
	}
	if !g.enter() {
		g.perUser.Give(who.device.User)
		account.Disconnect()
		g.metrics.Answered("connect", "503")
		// Spread, so that those refused together do not return together.
		web.WriteBusy(w, time.Second+rand.N(5*time.Second),
			&schemas.FieldError{Code: web.Overloaded, Reason: "too many connections"})
		return
	}
	s := &connection{gate: g, who: who, account: account, mayWatch: caller == nil || caller.MayWatch,
		mayWatchAny: caller != nil && caller.Any}
	s.term = auth.TermOf(r.Context())
	s.touched.Store(int64(g.now() - who.idle))
	s.at = g.devices.New(who.device, who.name, who.kind)
	s.conn, err = socket.Accept(w, r, socket.Options{
		MaxMessage: g.pace.Load().maxMessage, MaxDiscard: maxDiscard, WriteTimeout: g.cfg.Sockets.WriteTimeout,
		PingInterval: min(g.cfg.Sockets.PingInterval, g.paceOf(who.name).idle/3),
		Rate:         socket.DefaultRate, Burst: socket.DefaultBurst,
	})
	if err != nil {
		g.leave(s)
		return // Accept has answered
	}
	g.metrics.Answered("connect", "101")
	go func() { // Run waits for it, by leave
		defer g.leave(s)
		g.metrics.Closed(s.run())
	}()
}

func (g *Gate) now() time.Duration { return time.Since(g.start) }

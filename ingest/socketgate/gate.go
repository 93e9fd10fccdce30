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
	"github.com/stillhere/stillhere/internal/devices"
	"github.com/stillhere/stillhere/internal/problem"
	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/schemas"
)

// Beats takes what the sockets report. Calls come from many goroutines and must
// not block; beat.Buffer is the implementation. An error ends the socket.
type Beats interface {
	Beat(user schemas.UserID, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) error
	Bye(user schemas.UserID, device schemas.DeviceID) error
}

// OpenStream opens the stream of one socket, in plain types so that another room
// can provide it.
//
// user is who is at the other end, 0 for a gateway that beats for a user; anybody is set of
// administrators, who may watch anybody. send writes a text message to the socket, from
// any goroutine, and blocks until the socket has taken it or the write timeout has
// ended the socket; after an error every further send fails.
//
// handle takes a message of the client, valid during the call, and tells whether
// it was one of the stream's; the stream answers its own errors. It is called
// from one goroutine. close ends the stream; it is called once, after the last
// handle, and no send may begin after it has returned.
type OpenStream = func(user schemas.UserID, anybody bool, send func(message []byte) error) (handle func(message []byte) bool, close func())

// PerUser bounds how many connections each user has open at a time, here and at other
// doors of the process. Take reports false when the user has as many as allowed; each
// true is paired with one Give.
type PerUser interface {
	Take(user schemas.UserID) bool
	Give(user schemas.UserID)
	Most() int
}

// Gate serves the WebSocket door.
type Gate struct {
	perUser PerUser // nil: any number
	cfg     ingest.Config
	beats   Beats
	open    OpenStream
	metrics *ingest.Metrics
	start   time.Time
	pace    atomic.Pointer[pace]
	devices *devices.Registry

	mu       sync.Mutex // never held while anything blocks
	stopping bool
	count    int                  // sockets, and handshakes on their way to be one
	sockets  map[*connection]bool // those that can be told something
	running  sync.WaitGroup
}

// New makes a gate whose sockets beat through beats. open may be nil: then there
// is no stream.
func New(cfg ingest.Config, beats Beats, open OpenStream, metrics *ingest.Metrics) (*Gate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gate{cfg: cfg, beats: beats, open: open, metrics: metrics, start: time.Now()}
	g.Follow(cfg)
	g.devices = devices.NewRegistry()
	g.sockets = map[*connection]bool{}
	return g, nil
}

// pace is what of the settings follows the policy in force. It is not changed once made.
type pace struct {
	interval, idle time.Duration
	hello          []byte
}

// Follow takes over HeartbeatInterval and Sockets.IdleTimeout of cfg. Sockets that are open
// are told of another interval within Sockets.PingInterval, by another hello.
func (g *Gate) Follow(cfg ingest.Config) {
	g.pace.Store(&pace{interval: cfg.HeartbeatInterval, idle: cfg.Sockets.IdleTimeout, hello: []byte(
		`{"type":"hello","heartbeat_interval_ms":` + strconv.FormatInt(cfg.HeartbeatInterval.Milliseconds(), 10) +
			`,"max_subscriptions":` + strconv.Itoa(g.cfg.Sockets.MaxSubscriptions) + `}`)})
}

// Bound makes the gate refuse a user more sockets than perUser allows. Call it before
// Routes.
func (g *Gate) Bound(perUser PerUser) { g.perUser = perUser }

// Routes registers the door with mux.
func (g *Gate) Routes(mux *http.ServeMux) {
	problem.OnlyMethod(mux, http.MethodGet, "/presence/connect", g.connect)
}

// Run keeps the door open until ctx ends. Then it takes no more sockets, asks the
// open ones to connect elsewhere and returns nil when all are closed. Sockets
// that are not closed within DrainTimeout are cut off. Close the client after it.
func (g *Gate) Run(ctx context.Context) error {
	<-ctx.Done()
	g.mu.Lock()
	g.stopping = true
	for s := range g.sockets {
		g.running.Go(s.drain)
	}
	g.mu.Unlock()
	timeout := time.AfterFunc(g.cfg.Sockets.DrainTimeout, g.cut)
	defer timeout.Stop()
	g.running.Wait()
	return nil
}

// cut breaks all sockets.
func (g *Gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.sockets {
		s.conn.Abort()
	}
}

// enter makes room for a socket; false when there is none. Pair with leave.
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

// begin lets Run tell the socket when this process stops; false when it is too
// late for that.
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
	g.giveOf(s.who.device.User)
	g.metrics.Sockets.Dec()
	g.running.Done()
}

// connect answers the handshake. The socket lives on in a goroutine of its own,
// which costs less than that of the HTTP server.
func (g *Gate) connect(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, err error) {
		g.metrics.Answered("connect", strconv.Itoa(status))
		problem.Write(w, status, err)
	}
	if !g.cfg.AllowsOrigin(r) {
		answer(http.StatusForbidden, &schemas.FieldError{Code: "forbidden_origin",
			Reason: "the origin " + strconv.Quote(r.Header.Get("Origin")) + " is not allowed"})
		return
	}
	caller := ingest.CallerOf(r.Context())
	who, err := whoConnects(r.URL.RawQuery, caller)
	if err != nil {
		answer(http.StatusBadRequest, err)
		return
	}
	if err := caller.MaySpeakFor("user_id", who.device.User); err != nil {
		answer(http.StatusForbidden, err)
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		answer(http.StatusUpgradeRequired, &schemas.FieldError{Code: "upgrade_required", Reason: "this is a WebSocket"})
		return
	}
	if !g.takeOf(who.device.User) {
		w.Header().Set("Retry-After", strconv.Itoa(5+rand.IntN(10)))
		answer(http.StatusTooManyRequests, &schemas.FieldError{Code: "too_many_connections", Field: "user_id", Reason: "has " +
			strconv.Itoa(g.perUser.Most()) + " connections open already, which is all that one user may have; close one first"})
		return
	}
	if !g.enter() {
		g.giveOf(who.device.User)
		g.metrics.Answered("connect", "503")
		// Spread, or all who were refused would come again at the same time.
		problem.WriteBusy(w, time.Second+rand.N(5*time.Second),
			&schemas.FieldError{Code: problem.Overloaded, Reason: "too many connections"})
		return
	}
	s := &connection{gate: g, who: who, viewer: who.device.User, mayWatch: caller == nil || caller.MayWatch, anybody: caller != nil && caller.Any}
	if caller != nil && !caller.Any && caller.Gateway != "" {
		s.viewer = 0 // it beats for the user, and is not the user
	}
	s.until, _ = r.Context().Deadline() // when what lets the client in ends
	s.touched.Store(int64(g.now() - who.idle))
	s.at.Of = who.device
	s.at.Hear(g.now())
	s.conn, err = socket.Accept(w, r, socket.Options{
		MaxMessage: g.cfg.Sockets.MaxMessage, MaxDiscard: maxDiscard, WriteTimeout: g.cfg.Sockets.WriteTimeout,
		PingInterval: min(g.cfg.Sockets.PingInterval, g.pace.Load().idle/3),
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

func (g *Gate) takeOf(user schemas.UserID) bool { return g.perUser == nil || g.perUser.Take(user) }

func (g *Gate) giveOf(user schemas.UserID) {
	if g.perUser != nil {
		g.perUser.Give(user)
	}
}

func (g *Gate) now() time.Duration { return time.Since(g.start) }

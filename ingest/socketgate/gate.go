package socketgate

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/problem"
	"github.com/stillhere/stillhere/schemas"
)

// Beats takes what the sockets report. Calls come from many goroutines and must
// not block; client.Client is the implementation. An error ends the socket.
type Beats interface {
	Beat(user schemas.UserID, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) error
	Bye(user schemas.UserID, device schemas.DeviceID) error
}

// OpenStream opens the stream of one socket, in plain types so that another room
// can provide it.
//
// send writes a text message to the socket, from any goroutine, and blocks until
// the socket has taken it or the write timeout has ended the socket; after an
// error every further send fails.
//
// handle takes a message of the client, valid during the call, and tells whether
// it was one of the stream's; the stream answers its own errors. It is called
// from one goroutine. close ends the stream; it is called once, after the last
// handle, and no send may begin after it has returned.
type OpenStream = func(send func(message []byte) error) (handle func(message []byte) bool, close func())

// Gate serves the WebSocket door.
type Gate struct {
	cfg     ingest.Config
	beats   Beats
	open    OpenStream
	metrics *ingest.Metrics
	start   time.Time
	hello   []byte
	devices registry

	base  context.Context // of all sockets
	cut   context.CancelFunc
	stop  context.Context // ends when the sockets are to be drained
	drain context.CancelFunc

	mu       sync.Mutex // protects open sockets against a stop that begins
	stopping bool
	count    int
	sockets  sync.WaitGroup
}

// New makes a gate whose sockets beat through beats. open may be nil: then there
// is no stream.
func New(cfg ingest.Config, beats Beats, open OpenStream, metrics *ingest.Metrics) (*Gate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gate{cfg: cfg, beats: beats, open: open, metrics: metrics, start: time.Now(), hello: []byte(
		`{"type":"hello","heartbeat_interval_ms":` + strconv.FormatInt(cfg.HeartbeatInterval.Milliseconds(), 10) +
			`,"max_subscriptions":` + strconv.Itoa(cfg.Sockets.MaxSubscriptions) + `}`)}
	g.devices.sockets = map[device]*socket{}
	g.base, g.cut = context.WithCancel(context.Background())
	g.stop, g.drain = context.WithCancel(g.base)
	return g, nil
}

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
	g.mu.Unlock()
	g.drain()
	defer g.cut()
	timeout := time.AfterFunc(g.cfg.Sockets.DrainTimeout, g.cut)
	defer timeout.Stop()
	g.sockets.Wait()
	return nil
}

// enter makes room for a socket; false when there is none. Pair with leave.
func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping || g.count >= g.cfg.Sockets.MaxSockets {
		return false
	}
	g.count++
	g.sockets.Add(1)
	g.metrics.Sockets.Inc()
	return true
}

func (g *Gate) leave() {
	g.mu.Lock()
	g.count--
	g.mu.Unlock()
	g.metrics.Sockets.Dec()
	g.sockets.Done()
}

// connect is the life of one socket, from the handshake to its end.
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
	who, err := whoConnects(r.URL.RawQuery)
	if err != nil {
		answer(http.StatusBadRequest, err)
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		answer(http.StatusUpgradeRequired, &schemas.FieldError{Code: "upgrade_required", Reason: "this is a WebSocket"})
		return
	}
	if !g.enter() {
		g.metrics.Answered("connect", "503")
		// Spread, or all who were refused would come again at the same time.
		problem.WriteBusy(w, time.Second+rand.N(5*time.Second),
			&schemas.FieldError{Code: problem.Overloaded, Reason: "too many connections"})
		return
	}
	defer g.leave()
	s := &socket{gate: g, who: who}
	s.touched.Store(int64(g.now() - who.idle))
	s.heard.Store(int64(g.now()))
	s.conn, err = websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the origin has been checked above, patterns and all
		OnPingReceived:     func(context.Context, []byte) bool { s.beat(); return true },
	})
	if err != nil {
		return // Accept has answered
	}
	g.metrics.Answered("connect", "101")
	g.metrics.Closed(s.run())
}

func (g *Gate) now() time.Duration { return time.Since(g.start) }

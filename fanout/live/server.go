package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// Bus brings the changes of the users that are watched here.
type Bus interface {
	// Subscribe counts one more that wants the changes of users and returns nil when
	// everything published from now on will be received. On an error that is not so
	// yet, and will be by the next Receiver.Connected. It gives up when ctx ends.
	// Called concurrently.
	Subscribe(ctx context.Context, users []schemas.UserID) error
	// Unsubscribe undoes one Subscribe of each, whatever that returned. It must not
	// block. Called concurrently.
	Unsubscribe(users []schemas.UserID)
	// Run hands changes to r until ctx ends.
	Run(ctx context.Context, r fanout.Receiver) error
}

// Dependencies are what a Server needs.
type Dependencies struct {
	Bus    Bus
	Recent Recent
	View   Snapshot
	// Viewer tells who opens a stream, 0 for nobody known; nil: nobody is. The handler
	// around the server has let the request in.
	Viewer func(*http.Request) schemas.UserID
	// Exempt tells of who opens a stream that MayWatch is not asked, as of an
	// administrator; nil: of nobody.
	Exempt func(*http.Request) bool
	// Deliveries brings what recipients are to be told; nil: nothing does, and viewers
	// who ask for it are told so.
	Deliveries Deliveries
	// MayWatch is asked at each request about all the users it names, watched already or
	// not, and again every RecheckInterval about all of a viewer's; nil: everybody may watch everybody.
	MayWatch MayWatch
	// MayBeTold is asked before each delivery which of its recipients may not be told of
	// the user, by the same decision as MayWatch; on an error none of them is. nil: all may.
	MayBeTold func(ctx context.Context, user schemas.UserID, recipients []schemas.UserID) (refused []schemas.UserID, err error)
	// PerUser bounds how many streams each known viewer has open, here and at other
	// doors of the process; nil: any number.
	PerUser PerUser
	Metrics *fanout.Metrics
	Log     *slog.Logger // nil: none
}

// PerUser counts what each user has open. Take reports false when the user has as many
// as allowed, and true for user 0, who is not known; each true is paired with one Give.
type PerUser interface {
	Take(user schemas.UserID) bool
	Give(user schemas.UserID)
	Most() int
}

// Deliveries hands deliveries to take, from one goroutine, until ctx ends.
type Deliveries func(ctx context.Context, take func(*schemas.Delivery)) error

// NotAllowed is the error of MayWatch for users whom the viewer may not watch. Each
// is answered by an error message of its own, which says the same of users who are
// there, who hide and who do not exist; the others of the request are watched.
type NotAllowed struct{ Users []schemas.UserID }

func (e *NotAllowed) Error() string {
	return fmt.Sprintf("not allowed to watch %d users", len(e.Users))
}

// MayWatch tells by nil that viewer may watch all of users, by *NotAllowed whom not. A
// *schemas.FieldError is told to the viewer as it is; any other error as that it cannot
// be decided now. Nothing of the request is applied then. Asked again, the first two end
// what is not allowed any more, and the third leaves things as they are. viewer is 0 when it is not
// known who that is. It is called concurrently and must be done
// or give up when ctx ends. It is about who is a stranger to whom: who hides is hidden
// from everybody without it. (What it answers is seen by the viewer: to keep a block
// a secret, let the blocked watch a user that does not exist.)
type MayWatch func(ctx context.Context, viewer schemas.UserID, users []schemas.UserID) error

// Server serves the stream. It is an http.Handler for GET /presence/stream; who may
// watch is for the handler around it to decide.
type Server struct {
	cfg        fanout.Config
	hub        *hub
	bus        Bus
	deliveries Deliveries
	viewer     func(*http.Request) schemas.UserID
	perUser    PerUser // nil: any number
	exempt     func(*http.Request) bool
	metrics    *fanout.Metrics
	log        *slog.Logger

	mu       sync.Mutex // never held while anything blocks
	stopping bool
	streams  map[*stream]struct{}
	served   int // streams that count against MaxConnections
	running  sync.WaitGroup
}

// stream is an open connection as Run sees it.
type stream struct {
	kind   string         // websocket, events or embedded
	user   schemas.UserID // whom it counts against; 0: nobody known
	viewer *viewer        // nil until messages can be sent; guarded by Server.mu
	// abort ends the stream without asking the viewer; nil while it is being opened,
	// which the HTTP server bounds. It may block up to the write timeout where the
	// connection belongs to another. Guarded by Server.mu.
	abort func()
}

// New makes a Server. It serves from the start and is kept up to date by Run.
func New(cfg fanout.Config, d Dependencies) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("live stream settings: %w", err)
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Metrics == nil {
		d.Metrics = fanout.NewMetrics(nil)
	}
	r := reader{view: d.View, recent: d.Recent, metrics: d.Metrics, offline: cfg.HiddenOffline}
	if d.Viewer == nil {
		d.Viewer = func(*http.Request) schemas.UserID { return 0 }
	}
	if d.Exempt == nil {
		d.Exempt = func(*http.Request) bool { return false }
	}
	h := newHub(cfg, d.Metrics, d.Bus, r)
	h.mayWatch, h.mayBeTold, h.recipients.offered = d.MayWatch, d.MayBeTold, d.Deliveries != nil
	return &Server{cfg: cfg, hub: h, bus: d.Bus, deliveries: d.Deliveries, viewer: d.Viewer, exempt: d.Exempt, metrics: d.Metrics, log: d.Log, perUser: d.PerUser,
		streams: make(map[*stream]struct{})}, nil
}

// Follow makes every hello from now on tell clients to beat at this interval, as when the
// detector's policy was changed. It may be called from any goroutine.
func (s *Server) Follow(heartbeatInterval time.Duration) {
	s.hub.interval.Store(int64(heartbeatInterval))
}

// Run keeps viewers up to date until ctx ends. Then it takes no more of them, tells
// those there are to come back later, closes them, and returns when everything that
// belongs to them has ended. Call it once.
func (s *Server) Run(ctx context.Context) error {
	// Viewers are served until they are gone, which is after ctx.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	loops, serving := errgroup.WithContext(serving)
	loops.Go(func() error { return s.bus.Run(serving, s.hub) })
	if s.deliveries != nil {
		loops.Go(func() error {
			return s.deliveries(serving, func(d *schemas.Delivery) {
				if err := s.hub.deliver(serving, d); err != nil && serving.Err() == nil {
					s.log.Warn("a delivery was withheld", "user_id", d.Transition.User, "recipients", len(d.Recipients), "error", err)
				}
			})
		})
	}
	loops.Go(func() error { s.hub.resyncs(serving, s.log); return nil })
	select {
	case <-ctx.Done():
	case <-serving.Done(): // a loop has failed
	}
	s.drain()
	stop()
	if err := loops.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serving the live stream: %w", err)
	}
	return nil
}

// Open adds the stream to a socket that another owns, and at whose end viewer is; of
// who is exempt MayWatch is not asked. send writes one message to
// it; it may block up to a write timeout and is called by one goroutine at a time.
// handle takes a message of the client; it is false, and nothing happened, when the
// message is none of the stream's. It may block while earlier requests wait, and
// must not be called concurrently. close ends the stream and returns when send will
// not be called any more; the owner must call it, after breaking the connection if
// send might hang.
func (s *Server) Open(viewer schemas.UserID, exempt bool, send func(message []byte) error) (handle func(message []byte) (handled bool), close func()) {
	v := s.hub.newViewer(viewer, send, nil)
	v.exempt = exempt
	st := &stream{kind: "embedded"}
	st.abort = sync.OnceFunc(func() {
		v.close()
		s.release(st)
	})
	if s.admit(st) != nil {
		return func([]byte) bool { return false }, func() {}
	}
	handle = func(message []byte) bool {
		r, known := parseRequest(message, s.cfg.MaxSubscriptions)
		if known {
			v.submit(r)
		}
		return known
	}
	return handle, st.abort
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		writeError(w, http.StatusMethodNotAllowed, &schemas.FieldError{Code: "method_not_allowed", Reason: "use GET"})
		return
	}
	switch {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		s.serveWebSocket(w, r)
	case r.URL.Query().Has("user_ids") || r.URL.Query().Has("deliveries") || strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		s.serveEvents(w, r)
	default:
		w.Header().Set("Upgrade", "websocket")
		writeError(w, http.StatusUpgradeRequired, &schemas.FieldError{Code: "upgrade_required",
			Reason: "open a WebSocket, or name ?user_ids= for Server-Sent Events"})
	}
}

var (
	errFull          = errors.New("this server takes no more streams now")
	errTooManyOfUser = errors.New("the user has too many connections open")
)

// admit counts a stream in; the error says why there is no place for it.
func (s *Server) admit(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := st.kind != "embedded" // else it is part of a socket that counts already
	switch {
	case s.stopping:
		s.metrics.Refused.WithLabelValues("stopping").Inc()
		return errFull
	case counts && s.served >= s.cfg.MaxConnections:
		s.metrics.Refused.WithLabelValues("too_many_connections").Inc()
		return errFull
	}
	if counts && s.perUser != nil && !s.perUser.Take(st.user) {
		s.metrics.Refused.WithLabelValues("too_many_of_user").Inc()
		return errTooManyOfUser
	}
	if counts {
		s.served++
	}
	s.streams[st] = struct{}{}
	s.running.Add(1)
	s.metrics.Connections.WithLabelValues(st.kind).Inc()
	return nil
}

// begin says that v can be sent messages, and by what the stream ends at once; false
// when it is too late for that.
func (s *Server) begin(st *stream, v *viewer, abort func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.viewer, st.abort = v, abort
	return !s.stopping
}

func (s *Server) release(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	if st.kind != "embedded" && s.perUser != nil {
		s.perUser.Give(st.user)
	}
	if st.kind != "embedded" {
		s.served--
	}
	s.metrics.Connections.WithLabelValues(st.kind).Dec()
	s.running.Done()
}

// refuse answers that there is no place for a stream.
func (s *Server) refuse(w http.ResponseWriter, why error) {
	// Spread, so that those refused together do not come back together.
	if errors.Is(why, errTooManyOfUser) {
		w.Header().Set("Retry-After", strconv.Itoa(5+rand.IntN(10)))
		writeError(w, http.StatusTooManyRequests, &schemas.FieldError{Code: "too_many_connections", Field: "user_id", Reason: "has " +
			strconv.Itoa(s.perUser.Most()) + " connections open already, which is all that one user may have; close one first"})
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(1+rand.IntN(5)))
	writeError(w, http.StatusServiceUnavailable, &schemas.FieldError{Code: "too_many_connections", Reason: why.Error()})
}

func writeError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Whoever does not read the answer is gone.
	_ = json.NewEncoder(w).Encode(struct {
		Error errorBody `json:"error"`
	}{bodyOf(err)})
}

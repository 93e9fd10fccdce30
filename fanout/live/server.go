package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// Bus brings the changes of the users whom viewers of this node watch.
type Bus interface {
	// Subscribe counts one more subscriber of each of users. nil says that everything published from
	// now on will be received. After an error that holds from the next Receiver.Connected on. It
	// gives up when ctx ends. Called concurrently.
	Subscribe(ctx context.Context, users []schemas.UserID) error
	// Unsubscribe undoes one Subscribe of each of users, whatever Subscribe returned. It must not
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
	// Users says how viewers call users; the zero value is int mode. Tenant returns the tenant of a stream's
	// users, or why its viewer may not name it; nil: the default tenant.
	Users  identity.Users
	Tenant func(*http.Request) (string, error)
	// Keys seal the cursors that messages carry; nil: there are no cursors. Missed is needed with it.
	Keys   *cursor.Keys
	Missed Missed
	// Viewer returns who opens a stream, 0 if unknown; nil: always unknown. The handler around the
	// server has authenticated the request.
	Viewer func(*http.Request) schemas.UserID
	// ViewerName is the name of the viewer; the zero value if unknown. In text mode a viewer without a name gets
	// no deliveries.
	ViewerName func(*http.Request) schemas.Name
	// Exempt reports whether MayWatch is skipped, as for an administrator; nil: never.
	Exempt func(*http.Request) bool
	// Deliveries brings deliveries; nil: there are none, and viewers who ask for them get an error.
	Deliveries Deliveries
	// MayWatch is asked at each request about all users it names, watched already or not, and every
	// RecheckInterval about all users a viewer watches; nil: everybody may watch everybody.
	MayWatch MayWatch
	// MayReceive is asked before each delivery which of its recipients may not see the user, by the
	// same decision as MayWatch. After an error nobody receives it. nil: all may.
	MayReceive func(ctx context.Context, user schemas.UserID, recipients []schemas.UserID) (refused []schemas.UserID, _ error)
	// Denying says which of users deny the viewer, one answer for each in their order, and Denied whom a user denies: of
	// a list of the version at or a newer one. Where there is none yet, Denying answers with the zero value and Denied
	// with shown.ErrBehind. Called concurrently; they give up when ctx ends. nil: nobody is denied.
	Denying func(ctx context.Context, viewer schemas.UserID, users []schemas.UserID, at []schemas.Version,
	) ([]shown.Denying, error)
	Denied func(ctx context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error)
	// PerUser bounds the streams of each known viewer, together with other sockets of the process;
	// nil: no bound.
	PerUser PerUser
	// Tenants bounds the streams and subscriptions of each tenant; nil: no bound.
	Tenants *tenants.Accounts
	Metrics *fanout.Metrics // nil: registered nowhere
	Log     *slog.Logger    // nil: no log
}

// PerUser counts the connections of each user. Take reports false when the user has as many as
// allowed, and true for the unknown user 0. Each true is paired with one Give.
type PerUser interface {
	Take(user schemas.UserID) bool
	Give(user schemas.UserID)
	Most() int
}

// Deliveries hands deliveries to take, from one goroutine, until ctx ends.
type Deliveries func(ctx context.Context, take func(*schemas.Delivery)) error

// Server serves the stream. It is an http.Handler for GET /presence/stream; the handler around it
// authenticates.
type Server struct {
	cfg fanout.Config
	hub *hub

	mu       sync.Mutex // never held while anything blocks
	stopping bool
	streams  map[*stream]struct{}
	served   int // streams that count against MaxConnections
	running  sync.WaitGroup
}

// Kinds of streams.
const (
	kindWebSocket = "websocket"
	kindEvents    = "events"
	kindEmbedded  = "embedded" // part of a socket that another handler owns and counts
)

// stream is an open connection.
type stream struct {
	kind string
	user schemas.UserID // whom it counts against; 0: unknown
	// account is that of the tenant; nil: none. reserved is how many subscriptions it counts that the
	// viewer does not have yet.
	account  *tenants.Account
	reserved int
	viewer   *viewer // nil until messages can be sent; guarded by Server.mu
	// abort ends the stream at once; nil while it is opened, which the HTTP server bounds. It may
	// block up to the write timeout where the connection belongs to another. Guarded by Server.mu.
	abort func()
}

// New makes a Server. It serves at once; Run keeps viewers up to date.
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
	return &Server{cfg: cfg, hub: newHub(cfg, d), streams: make(map[*stream]struct{})}, nil
}

func (s *Server) viewer(r *http.Request) schemas.UserID {
	if s.hub.Viewer == nil {
		return 0
	}
	return s.hub.Viewer(r)
}

// nameOf is what the viewer is called; nil if that is not known.
func (s *Server) nameOf(r *http.Request) *schemas.Name {
	if s.hub.ViewerName == nil {
		return nil
	}
	return s.hub.ViewerName(r).Kept()
}

func (s *Server) exempt(r *http.Request) bool { return s.hub.Exempt != nil && s.hub.Exempt(r) }

// Follow sets the schedule in every hello from now on, and those for tenants with policies of their own,
// as after a change of a policy. The map must not be changed any more.
// Open streams get another hello within PingInterval. Any goroutine may call it.
func (s *Server) Follow(schedule schemas.Schedule, tenants map[string]schemas.Schedule) {
	s.hub.follow(schedule, tenants)
}

// Limit sets MaxConnections, MaxSubscriptions, MaxMessageBytes and QueueLength from now on. Open streams
// keep their size of messages and what they watch. Any goroutine may call it.
func (s *Server) Limit(cfg fanout.Config) { s.hub.limits.Store(&cfg) }

// Run keeps viewers up to date until ctx ends. Then it admits no more streams, asks viewers to
// reconnect later, closes them, and returns when all of that has ended. Call it once.
func (s *Server) Run(ctx context.Context) error {
	// Viewers are served until they are gone, which is after ctx.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	loops, serving := errgroup.WithContext(serving)
	loops.Go(func() error { return s.hub.Bus.Run(serving, s.hub) })
	if s.hub.Deliveries != nil {
		loops.Go(func() error {
			return s.hub.Deliveries(serving, func(d *schemas.Delivery) {
				if err := s.hub.deliver(serving, d); err != nil && serving.Err() == nil {
					s.hub.Log.Warn("delivery dropped: it cannot be decided who may receive it",
						"user_id", d.Transition.User, "recipients", len(d.Recipients), "error", err)
				}
			})
		})
	}
	loops.Go(func() error { s.hub.resyncs(serving); return nil })
	loops.Go(func() error { s.hub.decides(serving); return nil })
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

// drain asks all viewers to reconnect and returns when their streams have ended. After DrainTimeout
// it breaks the others.
func (s *Server) drain() {
	s.mu.Lock()
	s.stopping = true
	for st := range s.streams {
		// The owner of an embedded stream's socket closes it with a goodbye of its own.
		if st.viewer != nil && st.kind != kindEmbedded {
			st.viewer.post(request{kind: goodbye})
		}
	}
	s.mu.Unlock()
	late := time.AfterFunc(s.cfg.DrainTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for st := range s.streams {
			if st.abort != nil {
				go st.abort() // running waits for the stream, and so for this
			}
		}
	})
	defer late.Stop()
	s.running.Wait()
}

// Open adds the stream of viewer to a socket that the caller owns; if exempt, MayWatch is not asked. In
// text mode name is what the viewer is called, who watches users of its tenant.
// send writes one message to the socket. It may block up to a write timeout; one goroutine at a time
// calls it. handle takes a message of the client. It returns false, and does nothing, if the message
// is not for the stream. It may block while earlier requests wait, and must not be called
// concurrently. close ends the stream and returns when send will not be called any more. The owner
// must call it, after breaking the connection if send might hang.
func (s *Server) Open(viewer schemas.UserID, name schemas.Name, exempt bool, send func(message []byte) error,
) (handle func(message []byte) (handled bool), close func()) {
	v := s.hub.newViewer(viewer, send, nil)
	v.exempt, v.name, v.account = exempt, name.Kept(), s.hub.Tenants.Of(name.Tenant)
	st := &stream{kind: kindEmbedded}
	st.abort = sync.OnceFunc(func() {
		v.close()
		s.release(st)
	})
	if s.admit(st) != nil {
		return func([]byte) bool { return false }, func() {}
	}
	handle = func(message []byte) bool {
		r, known := parseRequest(message, s.naming(name.Tenant))
		if known {
			v.submit(r)
		}
		return known
	}
	return handle, st.abort
}

// admit counts a stream in. The error says why it is refused.
func (s *Server) admit(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := func(reason string, err error) error {
		s.hub.Metrics.Refused.WithLabelValues(reason).Inc()
		return err
	}
	counts := st.kind != kindEmbedded
	switch {
	case s.stopping:
		return refused("stopping", errFull)
	case counts && s.served >= s.hub.limits.Load().MaxConnections:
		return refused("too_many_connections", errFull)
	case counts && s.hub.PerUser != nil && !s.hub.PerUser.Take(st.user):
		return refused("too_many_of_user", errTooManyOfUser)
	case counts:
		if over := st.enter(); over != nil {
			if s.hub.PerUser != nil {
				s.hub.PerUser.Give(st.user)
			}
			return refused("tenant_quota", over)
		}
		s.served++
	}
	s.streams[st] = struct{}{}
	s.running.Add(1)
	s.hub.Metrics.Connections.WithLabelValues(st.kind).Inc()
	return nil
}

// enter counts the stream and its first subscriptions, unless the tenant is over a quota.
func (st *stream) enter() *tenants.OverQuota {
	if over := st.account.Connect(); over != nil {
		return over
	}
	over := st.account.Subscribe(st.reserved)
	if over != nil {
		st.account.Disconnect()
	}
	return over
}

// give gives the viewer the subscriptions that the stream has reserved.
func (st *stream) give(v *viewer) {
	v.account, v.counted, st.reserved = st.account, st.reserved, 0
}

// begin notes that v can be sent messages, and what ends the stream at once. It returns false if the
// server is stopping.
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
	if st.kind != kindEmbedded {
		s.served--
		st.account.Disconnect()
		st.account.Unsubscribe(st.reserved)
		if s.hub.PerUser != nil {
			s.hub.PerUser.Give(st.user)
		}
	}
	s.hub.Metrics.Connections.WithLabelValues(st.kind).Dec()
	s.running.Done()
}

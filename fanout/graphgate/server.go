package graphgate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Config are the bounds, with the defaults in brackets.
type Config struct {
	// MaxEntries [1,000] is how many entries a bulk request has at most.
	MaxEntries int
	// MaxBody [256 KiB] bounds the body of a bulk request.
	MaxBody int64
	// MaxRequests [16] is how many requests work with the store at a time.
	MaxRequests int
	// Timeout [5s] bounds reading the body, and then the work of a request.
	Timeout time.Duration
}

// Defaults returns the documented defaults.
func Defaults() Config {
	return Config{MaxEntries: 1000, MaxBody: 256 << 10, MaxRequests: 16, Timeout: 5 * time.Second}
}

// store is the part of a graph.Store that the endpoints need.
type store interface {
	Change(ctx context.Context, add, remove []graph.Edge, names graph.Names) (added, removed int64, err error)
	Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error)
	Names(ctx context.Context, users []schemas.UserID) (graph.Names, error)
}

// Dependencies are what a Server needs.
type Dependencies struct {
	Store store
	// Users is how requests name users. If users have names, Tenant returns whose users a request names.
	// A tenant that the sender may not name is an error, which Forbidden tells from others.
	Users     identity.Users
	Tenant    func(r *http.Request) (string, error)
	Forbidden func(err error) bool
	// CheckOrigin refuses the requests of web pages of other sites.
	CheckOrigin func(r *http.Request) error
	// Charge takes the entries of a request from its sender's limit. wait is the time until the
	// request may be repeated; most is not 0 if it never may, because the limit allows only so many
	// entries at once.
	Charge func(r *http.Request, entries int) (wait time.Duration, most int)
	// Tenants bounds the changes of each tenant; nil: no bound.
	Tenants  *tenants.Accounts
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Server serves the endpoints.
type Server struct {
	Dependencies
	config   Config
	slots    chan struct{} // one for each request that works with the store
	requests *prometheus.CounterVec
	logRate  rate.Sometimes // what is logged of a store that does not answer
}

// New makes a Server.
func New(config Config, d Dependencies) *Server {
	return &Server{Dependencies: d, config: config, slots: make(chan struct{}, config.MaxRequests),
		requests: promauto.With(d.Registry).NewCounterVec(prometheus.CounterOpts{Name: "stillhere_graph_http_requests_total",
			Help: "Requests to the follower graph by route and status code."}, []string{"route", "code"}),
		logRate: rate.Sometimes{Interval: time.Second}}
}

// Routes mounts the endpoints.
func (s *Server) Routes(mux *http.ServeMux) {
	for route, handle := range map[string]handler{
		"PUT /presence/{user_id}/followers/{follower_id}":    s.put,
		"DELETE /presence/{user_id}/followers/{follower_id}": s.delete,
		"GET /presence/{user_id}/followers":                  s.list,
		"POST /presence/followers":                           s.post,
	} {
		mux.HandleFunc(route, s.endpoint(route, handle))
	}
}

// handler returns the body of the answer; nil for 204.
type handler func(ctx context.Context, w http.ResponseWriter, r *http.Request) (body []byte, err error)

// statusClientClosed is the status in the metric of a request that the client gave up.
const statusClientClosed = 499

// endpoint adds the check of the origin, the bounds, the answer and the metric to a handler.
func (s *Server) endpoint(route string, handle handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body []byte
		err := s.CheckOrigin(r)
		if err != nil {
			err = &web.Refusal{Status: http.StatusForbidden, Err: err}
		} else {
			body, err = handle(r.Context(), w, r)
		}
		status := http.StatusOK
		switch {
		case err != nil && r.Context().Err() != nil:
			status = statusClientClosed // nobody receives an answer
		case err != nil:
			status = s.fail(w, r, route, err)
		case body == nil:
			status = http.StatusNoContent
			w.WriteHeader(status)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write(append(body, '\n')) // the client may have left
		}
		s.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	}
}

// enter takes a slot for work with the store. leave gives it back.
func (s *Server) enter() (leave func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	default:
		return nil, web.RefuseFor(time.Second, http.StatusServiceUnavailable, web.Overloaded, "", "too many requests at a time")
	}
}

// fail answers with err and returns the status.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, route string, err error) int {
	status, after := http.StatusBadRequest, time.Duration(0)
	var known *web.Refusal
	var bad *schemas.FieldError
	var collision *graph.CollisionError
	switch {
	case errors.As(err, &known):
		status, after = known.Status, known.After
	case errors.As(err, &bad) && bad.Code == codeConflict:
		status = http.StatusConflict
	case s.Forbidden != nil && s.Forbidden(err):
		status = http.StatusForbidden
	case errors.As(err, &collision):
		s.Log.ErrorContext(r.Context(), "ALARM: two names have one user id; edges of the second one are refused until one of both users is erased",
			"user_id", collision.User)
		status = http.StatusConflict
		err = &schemas.FieldError{Code: "identity_collision", Reason: "a user of this request cannot be told from another one; operators are alarmed"}
	case !schemas.IsInvalid(err):
		s.logRate.Do(func() {
			s.Log.WarnContext(r.Context(), "a request to the follower graph was answered with 503: the store failed; "+
				"other requests may fail too", "route", route, "error", err)
		})
		status, after = http.StatusServiceUnavailable, time.Second
		err = &schemas.FieldError{Code: "unavailable", Reason: "the store of the follower graph does not answer; " +
			"the request may be repeated"}
	}
	if after > 0 {
		w.Header().Set("Retry-After", web.RetryAfter(after))
	}
	web.Write(w, status, err)
	return status
}

package query

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Access decides what the sender of a request may read. The answer must not depend on whether a
// user is present, hidden or exists. An error means that it cannot be decided now. Called
// concurrently; the request's context ends the wait.
type Access interface {
	// Refused returns those of users whose presence the sender may not see.
	Refused(r *http.Request, users []schemas.UserID) ([]schemas.UserID, error)
	// MayReadHistory reports whether the sender may read the user's history.
	MayReadHistory(r *http.Request, user schemas.UserID) (bool, error)
}

// Server answers the HTTP reads. Authentication comes before it.
type Server struct {
	access  Access // nil: everybody may read everything
	viewer  func(*http.Request) Viewer
	users   identity.Users
	tenant  func(r *http.Request, given []string) (string, error) // nil: there are no tenants
	bound   func(*http.Request) bool
	charge  Charge
	reader  *Reader
	durable store.Reader
	config  lastseen.Config
	metrics *lastseen.Metrics
	log     *slog.Logger
	keys    *cursor.Keys   // nil: there are no cursors
	export  Export         // nil: there are no exports
	exports chan struct{}  // has an element for each export that runs
	logRate rate.Sometimes // what is logged of reads that are not answered
	// idleAfter is that of Follow.
	idleAfter atomic.Pointer[func(tenant string) time.Duration]
}

// statusClientClosed is the status in the metric of a request that the client gave up. No answer
// has it.
const statusClientClosed = "499"

func NewServer(reader *Reader, log *slog.Logger) *Server {
	s := &Server{reader: reader, durable: reader.durable, config: reader.config, metrics: reader.metrics, log: log,
		logRate: rate.Sometimes{Interval: time.Second}}
	s.Follow(func(string) time.Duration { return 0 })
	return s
}

// SetAccess makes access decide what each sender may read. Call it before Routes.
func (s *Server) SetAccess(access Access) { s.access = access }

// SetUsers says how users are named; without it they are integers. tenantOf returns the tenant of a request's
// users, whose parameter tenant has the given values, or why the sender may not name it; nil: the default
// tenant. Call it before Routes.
func (s *Server) SetUsers(users identity.Users, tenantOf func(r *http.Request, given []string) (string, error)) {
	s.users, s.tenant = users, tenantOf
}

// SetBound makes bound say whether the sender of a request may see one tenant alone;
// without it nobody is bound. Call it before Routes.
func (s *Server) SetBound(bound func(*http.Request) bool) { s.bound = bound }

// SetViewer makes of say who the sender of a request is; without it nobody sees hidden users. Call
// it before Routes.
func (s *Server) SetViewer(of func(*http.Request) Viewer) { s.viewer = of }

// Charge takes the ids of a batch from the limit of its sender. wait is the time until the request may be
// repeated; most is not 0 if it never may, because the limit has room for only so many ids at once. over
// says that the tenant is over its quota.
type Charge func(r *http.Request, ids int) (wait time.Duration, most int, over error)

// SetCharge makes charge bound the ids of each batch. Call it before Routes.
func (s *Server) SetCharge(charge Charge) { s.charge = charge }

// callerParam is the parameter by which a request without a token names its user, as on the
// stream. Access and the function of SetViewer read it.
const callerParam = "user_id"

// notAllowed is the same for every user: online, hidden or unknown.
func notAllowed(what string) error {
	return &schemas.FieldError{Code: codeNotAllowed, Field: "user_id", Reason: "you may not read the " + what + " of this user"}
}

const (
	codeNotAllowed = "not_allowed"
	codeTenant     = "tenant_not_allowed" // of the function of SetUsers
)

// Routes mounts the reads.
func (s *Server) Routes(mux *http.ServeMux) {
	reads := map[string]read{
		"GET /presence/batch":                   s.batch,
		"POST /presence/batch":                  s.postBatch,
		"GET /presence/count":                   s.counts,
		"GET /presence/push":                    s.push,
		"GET /presence/{user_id}":               s.user,
		"GET /presence/{user_id}/history":       s.history,
		"GET /presence/{user_id}/visibility":    s.visibility,
		"GET /presence/{user_id}/audience":      s.audience,
		"GET /presence/{user_id}/audience/deny": s.denials,
		"GET /presence/{user_id}/override":      s.override,
	}
	if s.keys != nil {
		reads["GET /presence/changes"], reads["POST /presence/changes"] = s.changes, s.postChanges
	}
	for route, read := range reads {
		mux.Handle(route, s.handle(route, read))
	}
	if s.export != nil {
		mux.Handle("GET /presence/{user_id}/export", s.exportEndpoint("GET /presence/{user_id}/export"))
	}
}

// read returns the JSON to send, or an error for fail. The header that it sets goes with its
// answer.
type read func(ctx context.Context, request *http.Request, header http.Header) ([]byte, error)

func (s *Server) handle(route string, read read) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		s.serve(w, request, route, time.Now(), read)
	})
}

// serve adds the time limit, errors and metrics to a read.
func (s *Server) serve(w http.ResponseWriter, request *http.Request, route string, started time.Time, read read) {
	ctx, cancel := context.WithDeadline(request.Context(), started.Add(s.config.ReadTimeout))
	defer cancel()
	header := w.Header()
	body, err := read(ctx, request, header)
	if err != nil {
		s.refuse(w, request, route, started, err)
		return
	}
	s.answer(w, route, started, http.StatusOK, body)
}

// refuse answers a read that has failed.
func (s *Server) refuse(w http.ResponseWriter, request *http.Request, route string, started time.Time, err error) {
	if request.Context().Err() != nil {
		// The client has left: no fault of the stores, and nobody receives an answer.
		s.metrics.Requests.WithLabelValues(route, statusClientClosed).Inc()
		return
	}
	status, body := fail(err)
	var refused *web.Refusal
	if errors.As(err, &refused) && refused.After > 0 {
		w.Header().Set("Retry-After", web.RetryAfter(refused.After))
	} else if status == http.StatusServiceUnavailable {
		s.logRate.Do(func() {
			s.log.WarnContext(request.Context(), "a read was answered with 503, because what it reads from did not answer; other reads may fail too", "route", route, "error", err)
		})
		w.Header().Set("Retry-After", "1")
	}
	s.answer(w, route, started, status, body)
}

func (s *Server) answer(w http.ResponseWriter, route string, started time.Time, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have left
	s.observe(route, started, strconv.Itoa(status))
}

func (s *Server) observe(route string, started time.Time, status string) {
	s.metrics.Requests.WithLabelValues(route, status).Inc()
	s.metrics.RequestTime.WithLabelValues(route).Observe(time.Since(started).Seconds())
}

// fail returns the status and body for err. Internal errors are not shown to the caller.
func fail(err error) (int, []byte) {
	status := http.StatusBadRequest
	var bad *schemas.FieldError
	var refused *web.Refusal
	switch {
	case errors.As(err, &refused):
		status = refused.Status
	case !errors.As(err, &bad):
		status, err = http.StatusServiceUnavailable, &schemas.FieldError{Code: "unavailable", Reason: "the stores do not answer; try again"}
	case bad.Code == codeNotAllowed || bad.Code == codeTenant:
		status = http.StatusForbidden
	}
	return status, append(web.JSON(err), '\n')
}

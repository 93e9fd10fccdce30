package query

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Access decides what the sender of a request may read. What it answers must not depend
// on whether a user is here, hides or exists. An error says that it cannot be decided
// now. Called concurrently; the request's context ends the wait.
type Access interface {
	// Refused are those of users whose presence must not be told.
	Refused(r *http.Request, users []schemas.UserID) ([]schemas.UserID, error)
	// MayReadHistory tells whether the log of the user's changes may be told.
	MayReadHistory(r *http.Request, user schemas.UserID) (bool, error)
}

// Server answers the HTTP reads. Whether a request may read at all is decided before it.
type Server struct {
	access  Access // nil: everybody may read everything
	reader  *Reader
	durable store.Reader
	config  lastseen.Config
	metrics *lastseen.Metrics
	log     *slog.Logger
	tell    rate.Sometimes // what is logged of reads that are not answered
}

// statusGone is the status in the metric of a request that the client has given up. No
// answer has it.
const statusGone = "499"

// NewServer makes a server on a reader and its durable store.
func NewServer(reader *Reader, log *slog.Logger) *Server {
	return &Server{reader: reader, durable: reader.durable, config: reader.config, metrics: reader.metrics, log: log,
		tell: rate.Sometimes{Interval: time.Second}}
}

// Ask has access decide what is told to whom. Call it before Routes.
func (s *Server) Ask(access Access) { s.access = access }

// whoAsks is the parameter by which a request without a token says who it is from, as on
// the stream. Access reads it.
const whoAsks = "user_id"

// notAllowed is the same for every user, here, hidden or unknown.
func notAllowed(what string) error {
	return &schemas.FieldError{Code: codeNotAllowed, Field: "user_id", Reason: "you may not read the " + what + " of this user"}
}

const codeNotAllowed = "not_allowed"

// Routes mounts the reads.
func (s *Server) Routes(mux *http.ServeMux) {
	for route, read := range map[string]read{
		"GET /presence/batch":             s.batch,
		"GET /presence/{user_id}":         s.user,
		"GET /presence/{user_id}/history": s.history,
	} {
		mux.Handle(route, s.handle(route, read))
	}
}

// read answers a request with the JSON to send, or an error that fail tells. What it
// sets in the header goes with its answer.
type read func(ctx context.Context, request *http.Request, header http.Header) ([]byte, error)

// handle gives a read its time limit, its errors and its metrics.
func (s *Server) handle(route string, read read) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		started := time.Now()
		ctx, cancel := context.WithTimeout(request.Context(), s.config.ReadTimeout)
		defer cancel()
		status := http.StatusOK
		header := w.Header()
		body, err := read(ctx, request, header)
		if err != nil && request.Context().Err() != nil {
			// Whoever asked has gone, which is no fault of the stores and nobody is told of.
			s.metrics.Requests.WithLabelValues(route, statusGone).Inc()
			return
		}
		if err != nil {
			status, body = fail(err)
		}
		header.Set("Content-Type", "application/json")
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Length", strconv.Itoa(len(body)))
		if status == http.StatusServiceUnavailable {
			s.tell.Do(func() {
				s.log.WarnContext(ctx, "a read was not answered; others may be as well", "route", route, "error", err)
			})
			header.Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		_, _ = w.Write(body) // whoever asked may have gone
		s.metrics.Requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
		s.metrics.RequestTime.WithLabelValues(route).Observe(time.Since(started).Seconds())
	})
}

// failure is the body of an answer that is not the one asked for.
type failure struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field,omitempty"`
	} `json:"error"`
}

// fail is the status and body that tell err. What went wrong inside is not told
// to strangers.
func fail(err error) (int, []byte) {
	var body failure
	var bad *schemas.FieldError
	status := http.StatusServiceUnavailable
	if errors.As(err, &bad) {
		status = http.StatusBadRequest
		if bad.Code == codeNotAllowed {
			status = http.StatusForbidden
		}
		body.Error.Code, body.Error.Message, body.Error.Field = bad.Code, bad.Error(), bad.Field
	} else {
		body.Error.Code, body.Error.Message = "unavailable", "the stores do not answer; try again"
	}
	return status, mustJSON(body)
}

package live

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// ServeHTTP answers with a WebSocket or with Server-Sent Events (HTML, 9.2): the same messages, each
// as one unnamed event, for the users in the query.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET")
		web.Write(w, http.StatusMethodNotAllowed, &schemas.FieldError{Code: "method_not_allowed", Reason: "use GET"})
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		if err := socket.CheckOrigin(r, s.cfg.Origins); err != nil {
			s.hub.Metrics.Refused.WithLabelValues("origin").Inc()
			web.Write(w, http.StatusForbidden, &schemas.FieldError{Code: "forbidden_origin", Reason: err.Error()})
			return
		}
		s.serve(w, r, kindWebSocket)
	case query.Has("user_ids") || query.Has("deliveries") || strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		s.serve(w, r, kindEvents)
	default:
		w.Header().Set("Upgrade", "websocket")
		web.Write(w, http.StatusUpgradeRequired, &schemas.FieldError{Code: "upgrade_required",
			Reason: "open a WebSocket, or name ?user_ids= for Server-Sent Events"})
	}
}

// serve admits a stream and answers the request. Run waits for its goroutine, by release.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, kind string) {
	tenant, err := s.tenantOf(r)
	if err != nil {
		status := http.StatusBadRequest
		if bad := new(schemas.FieldError); errors.As(err, &bad) && bad.Code == "tenant_not_allowed" {
			status = http.StatusForbidden
		}
		web.Write(w, status, err)
		return
	}
	asks, err := parseOpening(r, kind == kindEvents, s.naming(tenant))
	if err != nil {
		web.Write(w, http.StatusBadRequest, err)
		return
	}
	st := &stream{kind: kind, user: s.viewer(r), account: s.hub.Tenants.Of(tenant), reserved: len(asks.users.ids)}
	if err := s.admit(st); err != nil {
		s.refuse(w, err)
		return
	}
	var conn *socket.Conn
	if kind == kindWebSocket {
		conn, err = socket.Accept(w, r, s.socketOptions()) // on an error it has answered
	} else {
		web.StartEvents(w.Header())
		if conn, err = socket.TakeOver(w, s.socketOptions()); errors.Is(err, errors.ErrUnsupported) {
			defer s.release(st)
			s.serveWithin(w, r, st, asks, tenant)
			return
		}
	}
	if err != nil {
		s.hub.Metrics.Refused.WithLabelValues("handshake").Inc()
		s.release(st)
		return
	}
	go s.open(st, r, conn, tenant).serve(st, asks)
}

// maxDiscard is how many times MaxMessageBytes a message may have and still be answered with an
// error. A longer one closes the connection.
const maxDiscard = 16

func (s *Server) socketOptions() socket.Options {
	most := int(s.hub.limits.Load().MaxMessageBytes)
	return socket.Options{MaxMessage: most, MaxDiscard: most * maxDiscard,
		PingInterval: s.cfg.PingInterval, WriteTimeout: s.cfg.WriteTimeout, Rate: socket.DefaultRate, Burst: socket.DefaultBurst}
}

var (
	errFull          = errors.New("this server takes no more streams now")
	errTooManyOfUser = errors.New("the user has too many connections open")
)

// refuse answers a request that was not admitted.
func (s *Server) refuse(w http.ResponseWriter, why error) {
	if known := new(web.Refusal); errors.As(why, &known) {
		web.Write(w, known.Status, why)
		return
	}
	// Jittered, so that clients refused together do not come back together.
	if errors.Is(why, errTooManyOfUser) {
		w.Header().Set("Retry-After", strconv.Itoa(5+rand.IntN(10)))
		web.Write(w, http.StatusTooManyRequests, &schemas.FieldError{Code: "too_many_connections", Field: "user_id",
			Reason: "has " + strconv.Itoa(s.hub.PerUser.Most()) +
				" connections open already, which is all that one user may have; close one first"})
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(1+rand.IntN(5)))
	web.Write(w, http.StatusServiceUnavailable, &schemas.FieldError{Code: "too_many_connections", Reason: why.Error()})
}

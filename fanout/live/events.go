package live

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/schemas"
)

// eventsRequest is what a request for Server-Sent Events asks for.
type eventsRequest struct {
	users      []schemas.UserID
	deliveries bool // deliveries as well
}

func parseEventsRequest(query url.Values, limit int) (w eventsRequest, err error) {
	if w.deliveries, err = wantsDeliveries(query); err != nil {
		return w, err
	}
	if !w.deliveries || query.Has("user_ids") {
		w.users, err = parseQuery(query["user_ids"], limit)
	}
	return w, err
}

// begin makes the requests that a WebSocket's client would send.
func (w eventsRequest) begin(v *viewer) {
	v.post(request{kind: greet})
	if w.deliveries {
		v.post(request{kind: deliveries, on: true})
	}
	if len(w.users) > 0 {
		v.post(request{kind: subscribe, ids: w.users, once: true})
	}
}

// serveEvents answers a request for Server-Sent Events (HTML, 9.2): the same
// messages, each as one unnamed event, for the users named in the query. The stream
// lives on in a goroutine of its own, as a WebSocket does. A request that shares its
// connection with others (HTTP/2) is served here until it ends, which costs more.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	asks, err := parseEventsRequest(r.URL.Query(), s.cfg.MaxSubscriptions)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	st := &stream{kind: "events", user: s.viewer(r)}
	if err := s.admit(st); err != nil {
		s.refuse(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	conn, err := socket.TakeOver(w, s.sockets())
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		defer s.release(st)
		s.eventsWithin(w, r, st, asks)
	case err != nil:
		s.metrics.Refused.WithLabelValues("handshake").Inc()
		s.release(st)
	default:
		e := &events{server: s, conn: conn}
		e.until, _ = r.Context().Deadline() // when what lets the viewer in ends
		e.viewer = s.hub.newViewer(st.user, e.send, e.fail)
		e.viewer.exempt = s.exempt(r)
		e.viewer.offer = func(st *state) (func() error, error) { return conn.Offer(st.asEvent()) }
		e.viewer.retryIn = func(after time.Duration) error { return conn.Send(appendRetry(nil, after)) }
		go e.serve(st, asks) // Run waits for it, by leave
	}
}

// events is one viewer's stream of Server-Sent Events on a connection of its own.
type events struct {
	server *Server
	conn   *socket.Conn
	viewer *viewer
	until  time.Time // zero: no end
}

// serve is the life of the stream after the answer has begun.
func (e *events) serve(st *stream, asks eventsRequest) {
	defer e.server.release(st)
	// After the connection was broken, so that nothing the viewer does can hang.
	defer e.viewer.close()
	if !e.server.begin(st, e.viewer, e.conn.Abort) {
		e.conn.Abort()
		return
	}
	asks.begin(e.viewer)
	if !e.until.IsZero() {
		defer time.AfterFunc(time.Until(e.until), func() { e.fail(errEnded) }).Stop()
	}
	e.conn.Watch(func() { e.viewer.submit(request{kind: keepAlive}) })
}

func (e *events) send(message []byte) error { return e.conn.Send(appendEvent(nil, message)) }

// fail ends the connection: closing is all that can be said, and the client comes
// back by itself.
func (e *events) fail(reason error) {
	e.server.disconnected(reason)
	e.conn.Abort()
}

func (s *Server) disconnected(reason error) {
	label := "write"
	switch {
	case errors.Is(reason, errStopping):
		label = "stopping"
	case errors.Is(reason, errTooSlow):
		label = "too_slow"
	case errors.Is(reason, errEnded):
		label = "token_ended"
	case errors.Is(reason, errUnavailable):
		label = "unavailable"
	case errors.Is(reason, errNotAllowed):
		label = "not_allowed"
	}
	s.metrics.Disconnected.WithLabelValues(label).Inc()
}

// eventsWithin is the life of a stream within its request.
func (s *Server) eventsWithin(w http.ResponseWriter, r *http.Request, st *stream, asks eventsRequest) {
	ctx, abort := context.WithCancel(r.Context())
	defer abort()
	to := http.NewResponseController(w)
	write := func(event []byte) error {
		// A server without deadlines for writing has the peer's TCP to go by.
		if err := to.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(event); err != nil {
			return err
		}
		return to.Flush()
	}
	send := func(message []byte) error { return write(appendEvent(nil, message)) }
	v := s.hub.newViewer(st.user, send, func(reason error) {
		s.disconnected(reason)
		abort()
	})
	v.exempt = s.exempt(r)
	v.retryIn = func(after time.Duration) error { return write(appendRetry(nil, after)) }
	defer v.close()
	if !s.begin(st, v, abort) {
		return
	}
	asks.begin(v)
	alive := time.NewTicker(s.cfg.PingInterval)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				s.disconnected(errEnded)
			}
			return
		case <-alive.C:
			v.submit(request{kind: keepAlive})
		}
	}
}

// appendEvent appends a message as an event; nil is a comment, for a sign of life.
func appendEvent(to, message []byte) []byte {
	if message == nil {
		return append(to, ":\n\n"...)
	}
	return append(append(append(to, "data: "...), message...), "\n\n"...)
}

// appendRetry has an EventSource, which reconnects by itself, do so after that time: it
// heeds no message of ours.
func appendRetry(to []byte, after time.Duration) []byte {
	return append(strconv.AppendInt(append(to, "retry: "...), after.Milliseconds(), 10), "\n\n"...)
}

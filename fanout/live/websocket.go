package live

import (
	"errors"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/schemas"
)

// hardLimit is by how much a message may exceed MaxMessageBytes and still be
// answered with an error; beyond that the connection is closed.
const hardLimit = 16

// serveWebSocket answers the handshake. The WebSocket lives on in a goroutine of its
// own, which costs less than that of the HTTP server.
func (s *Server) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	if err := socket.CheckOrigin(r, s.cfg.Origins); err != nil {
		s.metrics.Refused.WithLabelValues("origin").Inc()
		writeError(w, http.StatusForbidden, &schemas.FieldError{Code: "forbidden_origin", Reason: err.Error()})
		return
	}
	wantDeliveries, err := wantsDeliveries(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	st := &stream{kind: "websocket", user: s.viewer(r)}
	if err := s.admit(st); err != nil {
		s.refuse(w, err)
		return
	}
	conn, err := socket.Accept(w, r, s.sockets())
	if err != nil {
		s.metrics.Refused.WithLabelValues("handshake").Inc()
		s.release(st)
		return // Accept has answered
	}
	v := &webSocket{server: s, conn: conn, deliveries: wantDeliveries}
	v.until, _ = r.Context().Deadline() // when what lets the viewer in ends
	v.viewer = s.hub.newViewer(st.user, conn.Write, v.close)
	v.viewer.exempt = s.exempt(r)
	v.viewer.offer = func(st *state) (func() error, error) { return conn.Offer(st.frame) }
	go v.serve(st) // Run waits for it, by leave
}

func (s *Server) sockets() socket.Options {
	return socket.Options{MaxMessage: int(s.cfg.MaxMessageBytes), MaxDiscard: int(s.cfg.MaxMessageBytes) * hardLimit,
		PingInterval: s.cfg.PingInterval, WriteTimeout: s.cfg.WriteTimeout, Rate: socket.DefaultRate, Burst: socket.DefaultBurst}
}

// webSocket is one viewer's WebSocket; see socket.Handler.
type webSocket struct {
	server     *Server
	conn       *socket.Conn
	viewer     *viewer
	until      time.Time // zero: no end
	deliveries bool      // asked for deliveries by the query
}

// serve is the life of the WebSocket after the handshake.
func (w *webSocket) serve(st *stream) {
	defer w.server.release(st)
	// After the connection was broken, so that nothing the viewer does can hang.
	defer w.viewer.close()
	if w.server.begin(st, w.viewer, w.conn.Abort) {
		w.viewer.post(request{kind: greet})
		if w.deliveries {
			w.viewer.post(request{kind: deliveries, on: true})
		}
	} else {
		w.close(errStopping)
	}
	if !w.until.IsZero() {
		defer time.AfterFunc(time.Until(w.until), func() { w.close(errEnded) }).Stop()
	}
	// Otherwise gone, by whichever side: there is nobody to be told.
	switch err := w.conn.Serve(w); {
	case errors.Is(err, socket.ErrTooOften):
		w.server.metrics.Disconnected.WithLabelValues("too_often").Inc()
	case errors.Is(err, socket.ErrUnfinished):
		w.server.metrics.Disconnected.WithLabelValues("unfinished").Inc()
	}
}

// Message takes a request.
func (w *webSocket) Message(message []byte) {
	req, _ := parseRequest(message, w.server.cfg.MaxSubscriptions)
	w.viewer.submit(req)
}

var errTooLong = errors.New("the message is too long")

// TooLong answers a message that was longer than MaxMessageBytes.
func (w *webSocket) TooLong() {
	w.viewer.submit(refusal(&schemas.FieldError{Code: "message_too_large", Reason: errTooLong.Error()}))
}

// Ping needs nothing but the pong.
func (*webSocket) Ping() {}

// errEnded is told with the status that the way in uses for it.
var errEnded = errors.New("the token has ended")

const statusEnded = 4401

var errIdle = errors.New("watching nobody for too long")

// Quiet ends a connection that has long watched nobody.
func (w *webSocket) Quiet() {
	if w.viewer.idleFor() > w.server.cfg.IdleTimeout {
		w.close(errIdle)
	}
}

// close closes with the status that tells the client why.
func (w *webSocket) close(reason error) {
	status, label := socket.Policy, "idle"
	switch {
	case errors.Is(reason, errStopping):
		status, label = socket.GoingAway, "stopping"
	case errors.Is(reason, errTooSlow):
		label = "too_slow"
	case errors.Is(reason, errEnded):
		status, label = statusEnded, "token_ended"
	case !errors.Is(reason, errIdle): // writing failed: nobody is there to be told
		if w.conn.Closing() {
			return // breaking the connection would keep the client from reading why
		}
		w.server.metrics.Disconnected.WithLabelValues("write").Inc()
		w.conn.Abort()
		return
	}
	w.server.metrics.Disconnected.WithLabelValues(label).Inc()
	w.conn.Close(status, reason.Error())
}

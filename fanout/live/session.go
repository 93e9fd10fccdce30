package live

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// opening is what a request asks for. Users and cursor are of Server-Sent Events only.
type opening struct {
	users      asked
	since      *cursor.Sealed
	deliveries bool
}

// lastEventID is the header with the id of the last event that a reconnecting EventSource got.
const lastEventID = "Last-Event-ID"

func parseOpening(r *http.Request, events bool, n naming) (o opening, err error) {
	query := r.URL.Query()
	if o.deliveries, err = wantsDeliveries(query); err != nil || !events {
		return o, err
	}
	if query.Has(sinceField) {
		if o.since, err = parseSince(sinceField, query.Get(sinceField)); err != nil {
			return o, err
		}
	}
	// A reconnecting EventSource repeats the query, so its header is newer.
	if id := r.Header.Get(lastEventID); id != "" {
		if o.since, err = parseSince(lastEventID, id); err != nil {
			return o, err
		}
	}
	if o.deliveries && !query.Has("user_ids") {
		return o, nil
	}
	o.users, err = n.distinct(n.users.List(query["user_ids"]))
	return o, err
}

// post makes the first requests of a viewer.
func (o opening) post(v *viewer) {
	v.post(request{kind: greet})
	if o.deliveries {
		v.post(request{kind: deliveries, on: true})
	}
	if len(o.users.ids) > 0 {
		v.post(request{kind: subscribe, ids: o.users.ids, names: o.users.names, once: true, cursors: true, since: o.since})
	}
}

// session is one stream with a connection of its own: a WebSocket, or the rest of an answer over
// HTTP/1.1 with Server-Sent Events. See socket.Handler. One goroutine serves it, which costs less
// than that of the HTTP server.
type session struct {
	server *Server
	conn   *socket.Conn
	viewer *viewer
	events bool
	tenant string
	term   *auth.Term // of the client's token
}

// open makes the session of a request. It does not hold on to the request.
func (s *Server) open(st *stream, r *http.Request, conn *socket.Conn, tenant string) *session {
	c := &session{server: s, conn: conn, tenant: tenant, events: st.kind == kindEvents}
	c.term = auth.TermOf(r.Context())
	c.viewer = s.hub.newViewer(st.user, c.send, c.end)
	st.give(c.viewer)
	c.viewer.exempt, c.viewer.name, c.viewer.tenant = s.exempt(r), s.nameOf(r), tenant
	if c.events {
		c.viewer.sendEvent = func(id string, message []byte) error { return conn.Send(web.AppendEvent(nil, "", id, message)) }
		c.viewer.offer = func(st *state) (func() error, error) {
			return conn.Offer(web.AppendEvent(nil, "", c.viewer.cursorAfter(st), st.change))
		}
		c.viewer.retryIn = func(after time.Duration) error { return conn.Send(web.AppendRetry(nil, after)) }
	} else {
		c.viewer.offer = func(st *state) (func() error, error) {
			if after := c.viewer.cursorAfter(st); after != "" {
				return conn.Offer(socket.Frame(withCursor(st.change, after)))
			}
			return conn.Offer(st.frame)
		}
	}
	return c
}

// serve runs the session until its connection ends.
func (c *session) serve(st *stream, o opening) {
	defer c.server.release(st)
	// The connection is broken by then, so nothing that the viewer does can hang.
	defer c.viewer.close()
	if c.server.begin(st, c.viewer, c.conn.Abort) {
		o.post(c.viewer)
	} else {
		c.end(errStopping)
	}
	c.term.Begin(func() { c.end(errEnded) })
	defer c.term.Stop()
	if c.events {
		c.conn.Watch(func() { c.viewer.submit(request{kind: keepAlive}) })
		return
	}
	c.sendTerm()
	switch err := c.conn.Serve(c); {
	case errors.Is(err, socket.ErrTooOften):
		c.server.countEnd("too_often")
	case errors.Is(err, socket.ErrUnfinished):
		c.server.countEnd("unfinished")
	}
}

func (c *session) send(message []byte) error {
	if c.events {
		return c.conn.Send(web.AppendEvent(nil, "", "", message))
	}
	return c.conn.Write(message)
}

// Message takes a request of a WebSocket's client.
func (c *session) Message(message []byte) {
	r, _ := parseRequest(message, c.server.naming(c.tenant))
	if r.kind != renew {
		c.viewer.submit(r)
	} else if err := c.term.Renew(message); err != nil {
		c.viewer.submit(refusal(err))
	} else {
		c.sendTerm()
	}
}

// sendTerm says how long the token lasts.
func (c *session) sendTerm() {
	if message := c.term.Message(); message != nil {
		c.viewer.submit(request{kind: say, message: message})
	}
}

var errTooLong = errors.New("the message is too long")

// TooLong answers a message that was longer than MaxMessageBytes.
func (c *session) TooLong() {
	c.viewer.submit(refusal(&schemas.FieldError{Code: "message_too_large", Reason: errTooLong.Error()}))
}

// Ping does nothing: the socket has sent the pong.
func (*session) Ping() {}

// Quiet ends a connection that has watched nobody for IdleTimeout. Others get a changed heartbeat
// interval.
func (c *session) Pong() {}

func (c *session) Quiet() {
	switch {
	case c.viewer.idleFor() > c.server.cfg.IdleTimeout:
		c.end(errIdle)
	case c.viewer.outdated():
		c.viewer.post(request{kind: greet})
	}
}

// statusEnded is the WebSocket status for a token that has ended; gateway sockets use it too.
const statusEnded = 4401

// ends are the reasons for which the server ends a stream: the label of the metric, and the status
// with which a WebSocket is closed.
var ends = []struct {
	reason error
	label  string
	status int
}{
	{errStopping, "stopping", socket.GoingAway},
	{errTooSlow, "too_slow", socket.Policy},
	{errEnded, "token_ended", statusEnded},
	{errIdle, "idle", socket.Policy},
	{errUnavailable, "unavailable", socket.Policy},
	{errNotAllowed, "not_allowed", socket.Policy},
}

// endOf returns label and status of a reason. Any other reason means that a write failed; then there
// is nobody to send a status to, and it is 0.
func endOf(reason error) (label string, status int) {
	for _, e := range ends {
		if errors.Is(reason, e.reason) {
			return e.label, e.status
		}
	}
	return "write", 0
}

func (s *Server) countEnd(label string) { s.hub.Metrics.Disconnected.WithLabelValues(label).Inc() }

// end ends the connection. A WebSocket is closed with a status; an EventSource has none and
// reconnects by itself.
func (c *session) end(reason error) {
	label, status := endOf(reason)
	if status == 0 && !c.events && c.conn.Closing() {
		return // breaking the connection would keep the client from reading the status
	}
	c.server.countEnd(label)
	if status == 0 || c.events {
		c.conn.Abort()
		return
	}
	c.conn.Close(status, reason.Error())
}

// serveWithin serves Server-Sent Events within their request, which shares its connection with
// others (HTTP/2). That costs more memory than a session.
func (s *Server) serveWithin(w http.ResponseWriter, r *http.Request, st *stream, o opening, tenant string) {
	ctx, abort := context.WithCancel(r.Context())
	defer abort()
	to := http.NewResponseController(w)
	write := func(event []byte) error {
		// A server without write deadlines relies on TCP.
		if err := to.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(event); err != nil {
			return err
		}
		return to.Flush()
	}
	send := func(message []byte) error { return write(web.AppendEvent(nil, "", "", message)) }
	v := s.hub.newViewer(st.user, send, func(reason error) {
		label, _ := endOf(reason)
		s.countEnd(label)
		abort()
	})
	st.give(v)
	v.exempt, v.name, v.tenant = s.exempt(r), s.nameOf(r), tenant
	v.retryIn = func(after time.Duration) error { return write(web.AppendRetry(nil, after)) }
	v.sendEvent = func(id string, message []byte) error { return write(web.AppendEvent(nil, "", id, message)) }
	defer v.close()
	if !s.begin(st, v, abort) {
		return
	}
	o.post(v)
	alive := time.NewTicker(s.cfg.PingInterval)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				s.countEnd("token_ended")
			}
			return
		case <-alive.C:
			v.submit(request{kind: keepAlive})
		}
	}
}

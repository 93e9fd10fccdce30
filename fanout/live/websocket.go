package live

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/schemas"
)

// hardLimit is by how much a message may exceed MaxMessageBytes and still be
// answered with an error; beyond that the connection is closed.
const hardLimit = 16

// serveWebSocket is the life of one WebSocket.
func (s *Server) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	ctx, abort := context.WithCancel(context.WithoutCancel(r.Context()))
	defer abort()
	st := &stream{kind: "websocket", abort: abort}
	if !s.enter(st) {
		s.refuse(w)
		return
	}
	defer s.leave(st)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: s.cfg.Origins})
	if err != nil {
		s.metrics.Refused.WithLabelValues("handshake").Inc()
		return // Accept has answered
	}
	send := func(message []byte) error {
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.WriteTimeout)
		defer cancel()
		return conn.Write(ctx, websocket.MessageText, message)
	}
	v := s.hub.newViewer(send, func(reason error) { s.closeWebSocket(conn, reason) })
	// Broken before the viewer is closed, so that nothing it does can hang.
	defer v.close()
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(s.cfg.MaxMessageBytes * hardLimit)
	if !s.begin(st, v) {
		s.closeWebSocket(conn, errStopping)
		return
	}
	v.tell(request{kind: greet})
	watchdog := s.watch(ctx, conn, v)
	defer watchdog.Stop()
	for {
		message, err := readMessage(ctx, conn, s.cfg.MaxMessageBytes)
		if errors.Is(err, errTooLong) {
			v.ask(refusal(&schemas.FieldError{Code: "message_too_large", Reason: errTooLong.Error()}))
			continue
		}
		if err != nil {
			return // gone, by whichever side
		}
		req, _ := parseRequest(message, s.cfg.MaxSubscriptions)
		v.ask(req)
	}
}

var errTooLong = errors.New("the message is too long")

// readMessage reads one message; errTooLong when it has more than limit bytes, which
// leaves the connection usable.
func readMessage(ctx context.Context, conn *websocket.Conn, limit int64) ([]byte, error) {
	_, from, err := conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	message, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil || int64(len(message)) <= limit {
		return message, err
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return nil, err
	}
	return nil, errTooLong
}

// watch pings the viewer every PingInterval and closes the connection of one that
// is dead, or has long watched nobody.
func (s *Server) watch(ctx context.Context, conn *websocket.Conn, v *viewer) *time.Timer {
	var timer *time.Timer
	armed := make(chan struct{})
	timer = time.AfterFunc(jittered(s.cfg.PingInterval), func() {
		<-armed
		s.track(func() {
			if v.idleFor() > s.cfg.IdleTimeout {
				s.closeWebSocket(conn, errIdle)
				return
			}
			ctx, cancel := context.WithTimeout(ctx, s.cfg.WriteTimeout)
			defer cancel()
			if conn.Ping(ctx) != nil {
				_ = conn.CloseNow()
				return
			}
			timer.Reset(jittered(s.cfg.PingInterval))
		})
	})
	close(armed)
	return timer
}

var errIdle = errors.New("watching nobody for too long")

// closeWebSocket closes with the status that tells the client why.
func (s *Server) closeWebSocket(conn *websocket.Conn, reason error) {
	status, label := websocket.StatusPolicyViolation, "idle"
	switch {
	case errors.Is(reason, errStopping):
		status, label = websocket.StatusGoingAway, "stopping"
	case errors.Is(reason, errTooSlow):
		label = "too_slow"
	case !errors.Is(reason, errIdle): // writing failed: nobody is there to be told
		s.metrics.Disconnected.WithLabelValues("write").Inc()
		_ = conn.CloseNow()
		return
	}
	s.metrics.Disconnected.WithLabelValues(label).Inc()
	_ = conn.Close(status, reason.Error())
}

package socketgate

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Why sockets end; also the label of the metric.
const (
	endBye        = "bye"
	endLost       = "lost"
	endDrain      = "drain"
	endRefuse     = "refused"    // the buffer refused a beat
	endToken      = "token"      // the client's token has ended
	endTooOften   = "too_often"  // more messages than a socket may send
	endUnfinished = "unfinished" // a message was not complete in time
	endQuota      = "quota"      // its tenant was over its quota of beats for too long
)

// statusQuota closes a socket whose beats were refused for too long because its tenant is over a quota;
// like HTTP 429.
const statusQuota = 4429

// statusToken closes a socket whose token has ended; like HTTP 401.
const statusToken = 4401

// connection is one socket. Times are since the gate began.
type connection struct {
	gate         *Gate
	conn         *socket.Conn
	who          client
	streamHandle func(message []byte) bool // takes the messages of the stream

	mayWatch    bool
	mayWatchAny bool
	term        *auth.Term // of the client's token

	at      *beat.Connection
	touched atomic.Int64 // when the person last touched the device, as last reported
	ending  atomic.Pointer[string]

	// Owned by the reading goroutine.
	hello       []byte        // the last one that was sent
	refusedFrom time.Duration // when the first beat was refused since the last accepted one; 0: none was

	account *tenants.Account // of the user's tenant; nil with --ids int
}

// run serves the socket after the handshake and returns why it ended.
func (s *connection) run() (reason string) {
	if !s.beat() {
		s.at.Drain()
		s.streamHandle = func([]byte) bool { return false }
		s.conn.Close(socket.TryLater, "too many devices")
		_ = s.conn.Serve(s) // waits for the client to confirm
		return endRefuse
	}
	// A failure to write ends the socket, and with it the reading below.
	s.sendHello()
	var closeStream func()
	s.streamHandle, closeStream = s.openStream()
	if s.who.deliveries && !s.streamHandle([]byte(`{"type":"deliveries","enabled":true}`)) {
		s.reply(&schemas.FieldError{Code: "no_deliveries", Field: "deliveries",
			Reason: "cannot be sent: this socket has no live stream"})
	}
	if !s.gate.begin(s) {
		s.drain()
	}
	s.term.Begin(func() {
		s.endAs(endToken)
		s.conn.Close(statusToken, "the token has ended")
	})
	defer s.term.Stop()
	s.sendTerm()
	reason = s.reason(s.conn.Serve(s))
	switch reason {
	case endBye:
		_ = s.at.Bye() // refused only when this process stops, which writes a draining frame
	case endDrain:
		s.at.Drain()
	default:
		_ = s.at.Drop() // as above
	}
	closeStream()
	return reason
}

// sendHello sends the hello, unless the client already has the same one.
func (s *connection) sendHello() {
	if hello := s.gate.paceOf(s.who.name).hello; !bytes.Equal(hello, s.hello) {
		s.hello = hello
		_ = s.conn.Write(hello)
	}
}

// sendTerm says how long the token lasts.
func (s *connection) sendTerm() {
	if message := s.term.Message(); message != nil {
		_ = s.conn.Write(message)
	}
}

func (s *connection) openStream() (handle func([]byte) bool, closeStream func()) {
	if s.gate.open == nil || !s.mayWatch {
		return func([]byte) bool { return false }, func() {}
	}
	// The socket watches users of the tenant that it beats for.
	var name schemas.Name
	if s.who.name != nil {
		name = *s.who.name
	}
	return s.gate.open(s.who.device.User, name, s.mayWatchAny, s.conn.Write)
}

// reason is why the socket ended, by the error of the last read. A close that this side began
// counts as this side's, although the client confirms it with the same code.
func (s *connection) reason(err error) string {
	if reason := s.ending.Load(); reason != nil {
		return *reason
	}
	switch {
	case errors.Is(err, socket.ErrTooOften):
		return endTooOften
	case errors.Is(err, socket.ErrUnfinished):
		return endUnfinished
	}
	if closed := new(socket.Closed); errors.As(err, &closed) {
		switch closed.Status {
		case socket.Normal, socket.GoingAway, socket.NoStatus:
			return endBye
		}
	}
	return endLost
}

// beat reports the device as online, also after a bye; false if beats are refused. Whoever has touched it since the
// beat before uses it.
func (s *connection) beat() bool {
	idle := s.gate.now() - time.Duration(s.touched.Load())
	if idle <= s.gate.paceOf(s.who.name).interval {
		idle = 0
	}
	err := s.at.Beat(idle)
	if err != nil {
		s.endAs(endRefuse)
	}
	return err == nil
}

// Ping is a beat; see socket.Handler.
func (s *connection) Ping() {
	if over := s.account.Beats(1); over != nil {
		s.overQuota(over)
		return
	}
	s.refusedFrom = 0
	if !s.beat() {
		s.conn.Abort()
	}
}

// overQuota answers a beat that is refused. Most clients send the next one in time, and nobody notices.
// The socket of a device that cannot be online any more is closed, so that its client knows.
func (s *connection) overQuota(over *tenants.OverQuota) {
	now := s.gate.now()
	if s.refusedFrom == 0 {
		s.refusedFrom = now
	}
	s.reply(over)
	if now-s.refusedFrom >= s.gate.pace.Load().idle {
		s.endAs(endQuota)
		s.conn.Close(statusQuota, "over the tenant's quota of "+over.Quota.String())
	}
}

func (s *connection) reply(err error) { _ = s.conn.Write(web.Message(err)) }

// endAs records why this side ends the socket; the first reason counts.
func (s *connection) endAs(reason string) { s.ending.CompareAndSwap(nil, &reason) }

// Pong is proof of life: a client need not send anything to be present.
func (s *connection) Pong() { s.at.Hear() }

// Quiet sends a changed heartbeat interval. A client that does not answer the ping that follows is cut off.
func (s *connection) Quiet() { s.sendHello() }

// drain asks the client to reconnect to another process, at a random time within DrainSpread.
func (s *connection) drain() {
	s.endAs(endDrain)
	after := "0"
	if spread := s.gate.cfg.Sockets.DrainSpread; spread > 0 {
		after = strconv.FormatInt(rand.N(spread).Milliseconds(), 10)
	}
	_ = s.conn.Write([]byte(`{"type":"reconnect","after_ms":` + after + `}`))
	s.conn.Close(socket.GoingAway, "reconnect after "+after+" ms")
}

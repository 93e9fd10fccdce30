package socketgate

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/stillhere/stillhere/ingest/problem"
)

// Why sockets end; also the label of the metric.
const (
	endBye    = "bye"
	endLost   = "lost"
	endIdle   = "idle"
	endDrain  = "drain"
	endRefuse = "refused" // the beats are not taken any more
)

// statusIdle closes a socket from which nothing was heard for too long; like HTTP
// 408.
const statusIdle websocket.StatusCode = 4408

// socket is one connection. Times are since the gate began.
type socket struct {
	gate *Gate
	conn *websocket.Conn
	who  identity

	heard   atomic.Int64 // when the client last said something
	touched atomic.Int64 // when the person last touched the device, as far as was said
	ending  atomic.Pointer[string]

	// The registry's lock protects these.
	here bool    // the socket counts as one of its device
	over bool    // and never will again
	next *socket // of the same device

	end context.CancelFunc // ends the socket without a word
}

// run is the life of the socket after the handshake. It returns why it ended.
func (s *socket) run() (reason string) {
	ctx, end := context.WithCancel(s.gate.base)
	s.end = end
	defer end()
	s.conn.SetReadLimit(maxDiscard)
	if s.beat(); s.ending.Load() != nil {
		_ = s.conn.Close(websocket.StatusTryAgainLater, "too many devices")
		s.leave(true, false)
		return endRefuse
	}
	// A failure to write ends the socket, and with it the reading below.
	_ = s.send(s.gate.hello)
	handle, closeStream := s.openStream()
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(ctx) })
	err := s.read(ctx, handle)
	reason = s.reason(err)
	s.leave(true, reason == endBye)
	closeStream()
	end()
	watch.Wait()
	_ = s.conn.CloseNow()
	return reason
}

func (s *socket) openStream() (handle func([]byte) bool, closeStream func()) {
	if s.gate.open == nil {
		return func([]byte) bool { return false }, func() {}
	}
	return s.gate.open(s.send)
}

// reason tells by the error of the last read why the socket ended. A close that
// this side began is not the client's, although the client confirms it with the
// same code.
func (s *socket) reason(err error) string {
	if reason := s.ending.Load(); reason != nil {
		return *reason
	}
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		return endBye
	}
	return endLost
}

// beat reports that the device is here, also one that had said bye.
func (s *socket) beat() {
	if !s.gate.devices.join(s) {
		return // a ping that came in while the socket was being closed
	}
	now := s.gate.now()
	s.heard.Store(int64(now))
	err := s.gate.beats.Beat(s.who.user, s.who.id, s.who.kind, now-time.Duration(s.touched.Load()))
	if err != nil {
		s.endAs(endRefuse)
		s.end()
	}
}

// leave takes the socket out of the registry, for good if it is over, and reports
// a bye if that was meant and no other socket of the device is alive.
func (s *socket) leave(over, bye bool) {
	last := s.gate.devices.part(s, over, s.gate.now()-3*s.gate.cfg.HeartbeatInterval/2)
	if bye && last {
		// Refused only when this process stops, and then it says so itself.
		_ = s.gate.beats.Bye(s.who.user, s.who.id)
	}
}

// send writes a message. An error has ended the socket.
func (s *socket) send(message []byte) error {
	ctx, cancel := context.WithTimeout(s.gate.base, s.gate.cfg.Sockets.WriteTimeout)
	defer cancel()
	err := s.conn.Write(ctx, websocket.MessageText, message)
	if err != nil {
		s.end()
	}
	return err
}

func (s *socket) tell(err error) { _ = s.send(problem.Message(err)) }

// endAs notes why this side ends the socket, unless a reason is known.
func (s *socket) endAs(reason string) { s.ending.CompareAndSwap(nil, &reason) }

// watch pings the client and ends the socket when it does not answer, when
// nothing has been heard for too long, or when this process stops.
func (s *socket) watch(ctx context.Context) {
	sockets := s.gate.cfg.Sockets
	tick := time.NewTicker(min(sockets.PingInterval, sockets.IdleTimeout/3))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.gate.stop.Done():
			s.drain()
			return
		case <-tick.C:
			if s.gate.now()-time.Duration(s.heard.Load()) >= sockets.IdleTimeout {
				s.endAs(endIdle)
				_ = s.conn.Close(statusIdle, "nothing was heard for too long")
				return
			}
			s.ping()
		}
	}
}

// ping ends the socket when the client does not answer.
func (s *socket) ping() {
	ctx, cancel := context.WithTimeout(s.gate.stop, s.gate.cfg.Sockets.WriteTimeout)
	defer cancel()
	if s.conn.Ping(ctx) != nil && s.gate.stop.Err() == nil {
		s.end()
	}
}

// drain asks the client to connect again, to another process, at a time of its
// own within DrainSpread.
func (s *socket) drain() {
	s.endAs(endDrain)
	after := "0"
	if spread := s.gate.cfg.Sockets.DrainSpread; spread > 0 {
		after = strconv.FormatInt(rand.N(spread).Milliseconds(), 10)
	}
	_ = s.send([]byte(`{"type":"reconnect","after_ms":` + after + `}`))
	_ = s.conn.Close(websocket.StatusGoingAway, "reconnect after "+after+" ms")
}

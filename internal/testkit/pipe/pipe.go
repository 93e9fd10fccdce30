// Package pipe makes network connections within the process, for tests in virtual time.
package pipe

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// pipeBuffer is how many bytes one direction of a pipe buffers before a write blocks; about the
// size of TCP's buffers.
const pipeBuffer = 1 << 20

// DialRedis connects to a miniredis whatever the address; it is a client's dialer. The dialer of
// miniredis has no buffers: a client that writes a long pipeline before it reads would block.
func DialRedis(server *miniredis.Miniredis) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, conn := New()
		server.Server().ServeConn(conn)
		return client, nil
	}
}

// New returns the two ends of a connection within the process. Unlike those of net.Pipe they have
// buffers, as a network has, so peers that both write before they read (pipelines of Redis, pings
// of a WebSocket) do not block each other. In a testing/synctest bubble, virtual time advances
// while a goroutine waits for a pipe.
func New() (net.Conn, net.Conn) {
	there, back := newHalf(), newHalf()
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

// half is one direction.
type half struct {
	mu      sync.Mutex // protects what follows; never held while waiting
	changed *sync.Cond
	data    []byte // data[taken:] waits for the reader
	taken   int
	ended   bool // the writer has closed; the rest may still be read
	broken  bool // the reader has closed; writes fail
	// Deadlines of the two sides; zero for none.
	read, write limit
}

// limit is a deadline; its timer wakes a goroutine that waits.
type limit struct {
	at    time.Time
	timer *time.Timer
}

func (l *limit) over() bool { return !l.at.IsZero() && !time.Now().Before(l.at) }

func newHalf() *half {
	h := &half{}
	h.changed = sync.NewCond(&h.mu)
	return h
}

// set changes a deadline of h; l belongs to h.
func (h *half) set(l *limit, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.at = at
	// Not for a deadline in the past: in a synctest bubble its function would run at once, on a
	// stack on which the race detector of Go 1.26 crashes.
	if left := time.Until(at); !at.IsZero() && left > 0 {
		l.timer = time.AfterFunc(left, h.wake)
	}
	h.changed.Broadcast()
}

func (h *half) waiting() int { return len(h.data) - h.taken }

func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed.Broadcast()
}

// stop stops the timer. The caller holds the lock.
func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// pipeEnd is one end of a connection.
type pipeEnd struct{ in, out *half }

func (p *pipeEnd) Read(b []byte) (int, error) {
	h := p.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.broken:
			return 0, net.ErrClosed
		case h.read.over():
			return 0, os.ErrDeadlineExceeded
		case h.waiting() > 0:
			n := copy(b, h.data[h.taken:])
			if h.taken += n; h.waiting() == 0 {
				h.data, h.taken = h.data[:0], 0
			}
			h.changed.Broadcast()
			return n, nil
		case h.ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		h.changed.Wait()
	}
}

func (p *pipeEnd) Write(b []byte) (written int, err error) {
	h := p.out
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.ended:
			return written, net.ErrClosed
		case h.broken:
			return written, io.ErrClosedPipe
		case h.write.over():
			return written, os.ErrDeadlineExceeded
		case len(b) == 0:
			return written, nil
		case h.waiting() < pipeBuffer:
			n := min(len(b), pipeBuffer-h.waiting())
			h.data = append(h.data, b[:n]...)
			written, b = written+n, b[n:]
			h.changed.Broadcast()
			continue
		}
		h.changed.Wait()
	}
}

func (p *pipeEnd) Close() error {
	p.out.mu.Lock()
	p.out.ended = true
	p.out.write.stop()
	p.out.changed.Broadcast()
	p.out.mu.Unlock()
	p.in.mu.Lock()
	p.in.broken, p.in.data, p.in.taken = true, nil, 0
	p.in.read.stop()
	p.in.changed.Broadcast()
	p.in.mu.Unlock()
	return nil
}

func (p *pipeEnd) SetReadDeadline(t time.Time) error  { p.in.set(&p.in.read, t); return nil }
func (p *pipeEnd) SetWriteDeadline(t time.Time) error { p.out.set(&p.out.write, t); return nil }

func (p *pipeEnd) SetDeadline(t time.Time) error {
	_ = p.SetReadDeadline(t)
	return p.SetWriteDeadline(t)
}

func (*pipeEnd) LocalAddr() net.Addr  { return pipeAddr{} }
func (*pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

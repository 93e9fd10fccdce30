package embedded

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how many bytes wait in one direction of a Pipe before a write
// blocks; about what TCP keeps.
const pipeBuffer = 1 << 20

// Pipe is a connection within the process. Other than net.Pipe's ends these have
// buffers, as a network has: peers that both write before they read, pipelines of
// Redis or the pings of a WebSocket, do not wait for each other for ever. In a
// testing/synctest bubble, waiting for a Pipe lets the clock move.
func Pipe() (net.Conn, net.Conn) {
	there, back := newHalf(), newHalf()
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

// half is one direction.
type half struct {
	mu      sync.Mutex // protects what follows; never held while waiting
	changed *sync.Cond
	data    []byte // what waits is data[taken:]
	taken   int
	ended   bool // the writer has closed: what is left may be read
	broken  bool // the reader has closed: nothing may be written
	// Deadlines of the two sides; zero for none.
	read, write limit
}

// limit is a deadline that wakes who waits.
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
	// Not for one that is over: in a bubble of virtual time its function would run
	// here and now, on a stack that the race detector of Go 1.26 crashes on.
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

// stop drops a timer that nobody needs any more. The caller holds the lock.
func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// pipeEnd is one end of a Pipe.
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

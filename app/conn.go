package app

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// trackedConn is a connection of a bounded listener, as the handlers of its requests see it.
type trackedConn interface {
	net.Conn
	state() *connState
}

// connState is the state of a connection.
type connState struct {
	leave  func()         // stops counting the connection; may be called twice
	idle   func(net.Conn) // the connection waits for a request
	busy   func()         // it has a request, or is closed
	length lengthSeen
	taken  atomic.Bool // a socket or stream has taken it over from the server

	mu     sync.Mutex
	behind func() // stops counting the client behind a proxy; nil: there is none
}

func (s *connState) close() {
	s.leave()
	s.settle(nil)
}

// read reads from inner, the connection that s is of.
func (s *connState) read(inner net.Conn, p []byte) (int, error) {
	n, err := inner.Read(p)
	s.length.look(p[:n])
	return n, err
}

// settle stops counting the client behind a proxy, and remembers how to stop for another.
func (s *connState) settle(another func()) {
	s.mu.Lock()
	before := s.behind
	s.behind = another
	s.mu.Unlock()
	if before != nil {
		before()
	}
}

// countedTCP is a counted connection with all methods of a TCP connection.
type countedTCP struct {
	*net.TCPConn
	*connState
}

func (c *countedTCP) state() *connState { return c.connState }

func (c *countedTCP) Read(p []byte) (int, error) {
	return c.read(c.TCPConn, p)
}

func (c *countedTCP) Close() error {
	defer c.close()
	return c.TCPConn.Close()
}

// counted is any other counted connection, e.g. of a test.
type counted struct {
	net.Conn
	*connState
}

func (c *counted) state() *connState { return c.connState }

func (c *counted) Read(p []byte) (int, error) {
	return c.read(c.Conn, p)
}

func (c *counted) Close() error {
	defer c.close()
	return c.Conn.Close()
}

// lengthSeen reports whether a connection has ever sent "Content-Length". net/http does
// not show it to handlers if the same request has "Transfer-Encoding".
type lengthSeen struct {
	seen    atomic.Bool
	matched int // bytes of lengthHeader that the last bytes were; of the one who reads
}

var lengthHeader = []byte("\ncontent-length:")

func (l *lengthSeen) look(p []byte) {
	if l.seen.Load() {
		return
	}
	for len(p) > 0 {
		if l.matched == 0 {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				return
			}
			p = p[i:]
		}
		b := p[0]
		p = p[1:]
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		switch b {
		case lengthHeader[l.matched]:
			l.matched++
		case '\n':
			l.matched = 1
		default:
			l.matched = 0
		}
		if l.matched == len(lengthHeader) {
			l.seen.Store(true)
			return
		}
	}
}

type connKey struct{}

// withConn lets handlers find the connection of a request.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if known, ok := c.(trackedConn); ok {
		return context.WithValue(ctx, connKey{}, known.state())
	}
	return ctx
}

// connOf is the connection of a request; nil where it is not one of a bounded listener.
func connOf(r *http.Request) *connState {
	state, _ := r.Context().Value(connKey{}).(*connState)
	return state
}

// trackState notes connections that a handler has taken over, and those that wait between
// two requests.
func trackState(c net.Conn, now http.ConnState) {
	known, ok := c.(trackedConn)
	if !ok {
		return
	}
	state := known.state()
	switch now {
	case http.StateHijacked:
		state.taken.Store(true)
	case http.StateIdle:
		state.idle(c)
		return
	}
	state.busy()
}

// withSafeHeaders closes connections after requests of which two servers might see different ends
// (RFC 9112, section 6.1), and sets the headers that no answer to a browser should lack;
// handlers may set others.
func withSafeHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", "frame-ancestors 'none'")
		// net/http ignores Transfer-Encoding in HTTP/1.0; a proxy before it may not.
		if !r.ProtoAtLeast(1, 1) {
			header.Set("Connection", "close")
		}
		// net/http does not show whether this request had the header, so that of an earlier request counts.
		if conn := connOf(r); conn != nil && len(r.TransferEncoding) > 0 && conn.length.seen.Load() {
			header.Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

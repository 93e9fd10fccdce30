//go:build !linux

package bench

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// ears hear all connections of a process.
type ears struct {
	w       *watchers
	reading sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func newEars(w *watchers) (*ears, error) { return &ears{w: w}, nil }

// add takes conn over, of which from has been read.
func (e *ears) add(conn net.Conn, from *bufio.Reader) error {
	e.mu.Lock()
	e.conns = append(e.conns, conn)
	e.mu.Unlock()
	e.reading.Go(func() {
		for {
			message, err := next(conn, from)
			if err != nil {
				e.mu.Lock()
				defer e.mu.Unlock()
				if !e.closed {
					e.w.fault(err)
				}
				return
			}
			e.w.note(message, time.Now().UnixNano())
		}
	})
	return nil
}

// dialer is for a connection to this machine.
func dialer(int) net.Dialer { return net.Dialer{Timeout: dialTimeout} }

// close ends all connections.
func (e *ears) close() {
	e.mu.Lock()
	e.closed = true
	for _, conn := range e.conns {
		_ = conn.Close()
	}
	e.mu.Unlock()
	e.reading.Wait()
}

//go:build unix

package socket

import (
	"errors"
	"sync"
	"syscall"
)

// attempt is one write that does not block.
type attempt struct {
	frame []byte
	n     int
	err   error
	do    func(fd uintptr) (done bool)
}

// attempts are shared, so that a write allocates nothing.
var attempts = sync.Pool{New: func() any {
	a := new(attempt)
	a.do = func(fd uintptr) bool {
		a.n, a.err = send(fd, a.frame)
		return true
	}
	return a
}}

// writeNow writes as much of frame as the kernel's buffer takes: nothing on connections that are
// not the kernel's, such as those of TLS. The caller holds writing.
func (c *Conn) writeNow(frame []byte) (int, error) {
	if c.raw == nil {
		return 0, nil
	}
	a := attempts.Get().(*attempt)
	a.frame, a.n, a.err = frame, 0, nil
	err := c.raw.Write(a.do)
	n := max(a.n, 0)
	if err == nil && !errors.Is(a.err, syscall.EAGAIN) && !errors.Is(a.err, syscall.EINTR) {
		err = a.err
	}
	a.frame = nil
	attempts.Put(a)
	return n, err
}

//go:build unix

package socket

import (
	"bytes"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// tight is a connection whose kernel has little room; what is written the slow way
// is kept.
type tight struct {
	net.Conn
	fd       int
	slow     []byte
	deadline time.Time
	closed   bool
}

func (c *tight) Write(b []byte) (int, error) {
	if c.deadline.IsZero() {
		return 0, errors.New("without a deadline")
	}
	c.slow = append(c.slow, b...)
	return len(b), nil
}
func (c *tight) SetWriteDeadline(at time.Time) error { c.deadline = at; return nil }
func (c *tight) Close() error                        { c.closed = true; return nil }

type tightRaw struct {
	syscall.RawConn
	c *tight
}

func (r tightRaw) Write(f func(fd uintptr) bool) error {
	if r.c.closed || !f(uintptr(r.c.fd)) {
		return net.ErrClosed
	}
	return nil
}

func newTight(t *testing.T) (c *Conn, conn *tight, client int) {
	t.Helper()
	pair := must.Get(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))(t)
	t.Cleanup(func() { _ = syscall.Close(pair[0]); _ = syscall.Close(pair[1]) })
	must.Do(t, errors.Join(syscall.SetNonblock(pair[0], true), syscall.SetsockoptInt(pair[0], syscall.SOL_SOCKET, syscall.SO_SNDBUF, 8<<10)))
	conn = &tight{fd: pair[0]}
	return &Conn{conn: conn, raw: tightRaw{c: conn}, writing: make(chan struct{}, 1), options: Options{WriteTimeout: time.Minute}}, conn, pair[1]
}

func TestWhatTheKernelHasRoomForGoesOutAtOnceAndTheRestWithinTheTimeOut(t *testing.T) {
	t.Parallel()
	c, conn, client := newTight(t)
	small, large := Frame([]byte("small")), Frame(bytes.Repeat([]byte("large "), 20_000))
	if finish, err := c.Offer(small); finish != nil || err != nil {
		t.Fatal("a small frame has to be finished", err)
	}
	finish, err := c.Offer(large)
	if finish == nil || err != nil {
		t.Fatal("there was room for all of a large frame", err)
	}
	later, err := c.Offer(small)
	if later == nil || err != nil {
		t.Fatal("a frame overtakes what is not finished", err)
	}
	if len(conn.slow) > 0 {
		t.Fatal("an offer has waited")
	}
	must.Do(t, errors.Join(finish(), later()))
	if !conn.deadline.IsZero() {
		t.Error("the deadline stays and will end what is written after it")
	}
	room := make([]byte, 1<<20)
	n := must.Get(syscall.Read(client, room))(t)
	if got := append(room[:n], conn.slow...); !bytes.Equal(got, bytes.Join([][]byte{small, large, small}, nil)) {
		t.Errorf("%d bytes at once and %d later are not the frames in order", n, len(conn.slow))
	}
}

func TestAnOfferToABrokenConnectionIsRefused(t *testing.T) {
	t.Parallel()
	c, conn, client := newTight(t)
	must.Do(t, syscall.Shutdown(client, syscall.SHUT_RD))
	for range 2 { // as it breaks, and afterwards
		if finish, err := c.Offer(Frame([]byte("x"))); err == nil || finish != nil {
			t.Fatal("a broken connection takes frames")
		}
	}
	if !conn.closed || c.Write([]byte("x")) == nil {
		t.Error("it is not closed")
	}
}

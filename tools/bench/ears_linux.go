package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ears hear all connections of a process in one thread, by epoll: a goroutine for
// each would cost the machine several times what the server spends on them.
type ears struct {
	w     *watchers
	epoll int
	done  atomic.Bool
	all   sync.WaitGroup

	mu  sync.Mutex // guards of while connections are added
	of  []*ear     // the events of the epoll carry the index
	buf []byte
}

// ear is one connection.
type ear struct {
	fd   int
	rest []byte // of a frame that has not come whole
}

// hearEvery is how often the end of the ears is noticed.
const hearEvery = 100 * time.Millisecond

func newEars(w *watchers) (*ears, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an epoll: %w", err)
	}
	e := &ears{w: w, epoll: fd, buf: make([]byte, 64<<10)}
	e.all.Go(e.hear)
	return e, nil
}

// add takes conn over, of which from has been read.
func (e *ears) add(conn net.Conn, from *bufio.Reader) error {
	fd, err := copied(conn)
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil { // the copy stays
		return err
	}
	heard, err := from.Peek(from.Buffered())
	if err != nil {
		return err
	}
	e.mu.Lock()
	at := len(e.of)
	e.of = append(e.of, &ear{fd, append([]byte(nil), heard...)})
	e.mu.Unlock()
	return syscall.EpollCtl(e.epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(at)})
}

// fromEach is how many connections come from one address. The kernel gives away every
// second of 28,000 ports first, and looks at all that are taken before it tries the
// others: with 16,000 from one address that took more time than everything else.
const fromEach = 8_000

// bindAddressNoPort is IP_BIND_ADDRESS_NO_PORT of linux/in.h: the port is chosen when
// it is known where to, as it is without an address of one's own.
const bindAddressNoPort = 24

// dialer is for the i-th connection of a process to this machine.
func dialer(i int) net.Dialer {
	return net.Dialer{Timeout: dialTimeout, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i/fromEach%200))},
		Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			fault := raw.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindAddressNoPort, 1)
			})
			return errors.Join(fault, err)
		}}
}

func (e *ears) hear() {
	events := make([]syscall.EpollEvent, 256)
	for !e.done.Load() {
		n, err := syscall.EpollWait(e.epoll, events, int(hearEvery.Milliseconds()))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			e.w.fault(err)
			return
		}
		e.mu.Lock()
		of := e.of
		e.mu.Unlock()
		for _, event := range events[:max(n, 0)] {
			if err := e.one(of[event.Fd]); err != nil {
				e.w.fault(err)
				return
			}
		}
	}
}

// one reads what has come on a connection.
func (e *ears) one(of *ear) error {
	n, err := syscall.Read(of.fd, e.buf)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return nil
	case err != nil:
		return err
	case n == 0:
		return errors.New("the server is gone")
	}
	at := time.Now().UnixNano()
	text := e.buf[:n]
	if len(of.rest) > 0 {
		text = append(of.rest, text...)
	}
	for {
		code, payload, rest := cut(text)
		if code == 0 {
			of.rest = append([]byte(nil), text...)
			return nil
		}
		text = rest
		switch code {
		case 0x9:
			if _, err := syscall.Write(of.fd, masked(0x8a, payload)); err != nil {
				return err
			}
		case 0x8:
			return fmt.Errorf("the server closed: %q", payload)
		default:
			e.w.note(payload, at)
		}
	}
}

// cut takes the first frame off text; code 0: it is not there whole.
func cut(text []byte) (code byte, payload, rest []byte) {
	if len(text) < 2 {
		return 0, nil, nil
	}
	head, length := 2, int(text[1])
	switch {
	case length == 126 && len(text) >= 4:
		head, length = 4, int(binary.BigEndian.Uint16(text[2:]))
	case length == 127 && len(text) >= 10:
		head, length = 10, int(binary.BigEndian.Uint64(text[2:]))
	case length >= 126:
		return 0, nil, nil
	}
	if len(text) < head+length {
		return 0, nil, nil
	}
	return text[0] & 0x0f, text[head : head+length], text[head+length:]
}

// close ends all connections.
func (e *ears) close() {
	e.done.Store(true)
	e.all.Wait()
	for _, one := range e.of {
		_ = syscall.Close(one.fd)
	}
	_ = syscall.Close(e.epoll)
}

package virtual

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/stillhere/stillhere/app"
)

// wire is all that joins a process to the world: it can be cut for ever, as by
// kill -9, or frozen for a while, as by SIGSTOP or a network that stands still.
type wire struct {
	mu    sync.Mutex // protects what follows; never held while waiting
	open  chan struct{}
	cut   bool
	ends  []net.Conn
	bases []net.Listener
}

func newWire() *wire {
	w := &wire{open: make(chan struct{})}
	close(w.open)
	return w
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// dial passes connections on through the wire.
func (w *wire) dial(on dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := w.wait(ctx); err != nil {
			return nil, err
		}
		c, err := on(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return w.hold(c)
	}
}

// listen passes listeners on through the wire.
func (w *wire) listen(on func(network, address string) (net.Listener, error)) func(network, address string) (net.Listener, error) {
	return func(network, address string) (net.Listener, error) {
		l, err := on(network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bases = append(w.bases, l)
		return wiredListener{l, w}, nil
	}
}

var errCut = errors.New("the process is dead")

func (w *wire) hold(c net.Conn) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = c.Close()
		return nil, errCut
	}
	w.ends = append(w.ends, c)
	return wiredConn{c, w}, nil
}

func (w *wire) wait(ctx context.Context) error {
	w.mu.Lock()
	open := w.open
	w.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// freeze lets nothing through until the wire is thawed.
func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if select1(w.open) && !w.cut {
		w.open = make(chan struct{})
	}
}

// thaw lets everything through that waits.
func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !select1(w.open) {
		close(w.open)
	}
}

func select1(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sever cuts the wire for ever: what the process does from now on has no effect.
func (w *wire) sever() {
	w.mu.Lock()
	w.cut = true
	ends, bases := w.ends, w.bases
	w.mu.Unlock()
	for _, c := range ends {
		_ = c.Close()
	}
	for _, l := range bases {
		_ = l.Close()
	}
	w.thaw()
}

// startOn runs a role, named after it, on a wire.
func (w *world) startOn(role string, change func(*app.Config)) (*process, *wire) {
	w.Helper()
	wire := newWire()
	return w.start(role, role, change, func(c *app.Config) { c.Kafka.Dialer = wire.dial(c.Kafka.Dialer) }), wire
}

// kill ends a process on a wire as kill -9 does: it cannot commit, and says so.
func (p *process) kill(on *wire) {
	on.sever()
	p.over = true
	p.cancel()
	<-p.ended
}

type wiredConn struct {
	net.Conn
	wire *wire
}

func (c wiredConn) Read(b []byte) (int, error) {
	_ = c.wire.wait(context.Background())
	n, err := c.Conn.Read(b)
	_ = c.wire.wait(context.Background())
	return n, err
}

func (c wiredConn) Write(b []byte) (int, error) {
	_ = c.wire.wait(context.Background())
	return c.Conn.Write(b)
}

type wiredListener struct {
	net.Listener
	wire *wire
}

func (l wiredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wire.hold(c)
}

package virtual

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/stillhere/stillhere/internal/testkit/pipe"
)

// network joins listeners and dialers within the process, by address.
type network struct {
	mu        sync.Mutex // protects listeners
	listeners map[string]*listener
}

func newNetwork() *network { return &network{listeners: map[string]*listener{}} }

func (n *network) listen(_, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, fmt.Errorf("%s is in use", address)
	}
	l := &listener{network: n, address: address, waiting: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nobody listens on %s", address)
	}
	client, server := pipe.New()
	select {
	case l.waiting <- server:
		return client, nil
	case <-l.closed:
		return nil, fmt.Errorf("nobody listens on %s any more", address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener is a net.Listener.
type listener struct {
	network *network
	address string
	waiting chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, l.address)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l }

// Network and String make the listener its own address.
func (l *listener) Network() string { return "within the process" }
func (l *listener) String() string  { return l.address }

package redistest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// connections are those that Dial made.
type connections struct {
	mu   sync.Mutex
	down bool
	open map[*connection]struct{}
}

var errDown = errors.New("the test has stopped Redis")

// Dial connects; Cut and Down break the connection.
func (c *connections) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	down := c.down
	c.mu.Unlock()
	if down {
		return nil, errDown
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tracked := &connection{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		_ = conn.Close()
		return nil, errDown
	}
	if c.open == nil {
		c.open = map[*connection]struct{}{}
	}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

// Cut breaks all connections; new ones can be made.
func (c *connections) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Conn.Close()
		delete(c.open, conn)
	}
}

// Down breaks all connections and refuses new ones until Up.
func (c *connections) Down() { c.set(true); c.Cut() }

// Up ends Down.
func (c *connections) Up() { c.set(false) }

func (c *connections) set(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

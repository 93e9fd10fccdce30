// Package redistest gives tests a Redis whose connections can be cut: miniredis,
// and a real server where one is installed.
package redistest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Redis is a server of its own for one test.
type Redis struct {
	Addr string
	Mini *miniredis.Miniredis // nil when it is a real one

	mu   sync.Mutex
	down bool
	open map[*cutConn]struct{}
}

// Each runs f with every kind of server there is here, in parallel.
func Each(t *testing.T, f func(t *testing.T, r *Redis)) {
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); f(t, Mini(t)) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); f(t, Real(t)) })
}

// Mini starts miniredis.
func Mini(t testing.TB) *Redis {
	m := miniredis.RunT(t)
	return &Redis{Addr: m.Addr(), Mini: m, open: make(map[*cutConn]struct{})}
}

// Real starts a real server on a free port of loopback, or skips.
func Real(t testing.TB) *Redis {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server here")
	}
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().(*net.TCPAddr)
	_ = free.Close()
	// Not of the test's context, which ends before the clean-ups that need the server.
	cmd := exec.CommandContext(context.Background(), path, "--port", strconv.Itoa(addr.Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--daemonize", "no")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	ready := false
	for !ready && lines.Scan() {
		ready = strings.Contains(lines.Text(), "Ready to accept connections")
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait()
	})
	if !ready {
		t.Fatal("redis-server did not start")
	}
	return &Redis{Addr: addr.String(), open: make(map[*cutConn]struct{})}
}

var errDown = errors.New("the test has taken Redis away")

// Dial connects so that Cut and Down can break the connection.
func (r *Redis) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	r.mu.Lock()
	down := r.down
	r.mu.Unlock()
	if down {
		return nil, errDown
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tracked := &cutConn{Conn: conn, of: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		_ = conn.Close()
		return nil, errDown
	}
	r.open[tracked] = struct{}{}
	return tracked, nil
}

// Cut breaks all connections; new ones can be made.
func (r *Redis) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		_ = conn.Conn.Close()
		delete(r.open, conn)
	}
}

// Down breaks all connections and refuses new ones until Up.
func (r *Redis) Down() { r.set(true); r.Cut() }

// Up ends Down.
func (r *Redis) Up() { r.set(false) }

func (r *Redis) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

type cutConn struct {
	net.Conn
	of *Redis
}

func (c *cutConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

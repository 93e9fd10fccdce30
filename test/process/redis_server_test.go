//go:build unix

package process_test

import (
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// redisServer is a private redis-server that keeps nothing on disk.
type redisServer struct {
	*testkit.Program
	address string
}

// startRedis starts one; port 0 of address takes a free one.
func startRedis(t *testing.T, address string, arguments ...string) *redisServer {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server here: install it")
	}
	if address == "" {
		address = testkit.FreePort(t)
	}
	_, port, _ := net.SplitHostPort(address)
	s := &redisServer{address: address}
	s.Program = testkit.Start(t, path, nil, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir()}, arguments...)...)
	testkit.Until(t, "redis-server accepts connections", 20*time.Second, func() bool {
		return strings.Contains(s.Out.String(), "Ready to accept connections")
	})
	return s
}

// do sends one command, its words separated by spaces.
func (s *redisServer) do(command string) {
	s.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.address, MaxRetries: -1, DisableIdentity: true})
	defer client.Close()
	var words []any
	for _, word := range strings.Fields(command) {
		words = append(words, word)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := client.Do(ctx, words...).Err(); err != nil {
		s.Errorf("redis: %s: %v", command, err)
	}
}

// relay is the address by which Redis is known, whichever server that is.
type relay struct {
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	to    string
	conns []net.Conn
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{listener: l, to: to}
	r.running.Go(r.accept)
	t.Cleanup(func() {
		l.Close()
		r.lead("") // nobody
		r.running.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		far, err := net.DialTimeout("tcp", r.to, 5*time.Second)
		if err != nil {
			near.Close()
			r.mu.Unlock()
			continue
		}
		r.conns = append(r.conns, near, far)
		r.mu.Unlock()
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			r.running.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // how it ends is the test's doing
				near.Close()
				far.Close()
			})
		}
	}
}

// cut breaks all connections; new ones can be made.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// lead has new connections go to another server, and breaks the old ones.
func (r *relay) lead(to string) {
	r.mu.Lock()
	r.to = to
	r.mu.Unlock()
	r.cut()
}

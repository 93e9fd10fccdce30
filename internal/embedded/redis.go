package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// RedisConfig says what kind of Redis to start.
type RedisConfig struct {
	// Listen is host:port; port 0 takes a free one. Empty: no TCP, connections come
	// from Dial only, as testing/synctest needs it.
	Listen string
	// Clock is how often keys are looked through for those that expired [1s].
	Clock time.Duration
}

// Redis is a Redis within this process. It forgets everything when it closes.
type Redis struct {
	server *miniredis.Miniredis
	addr   string
	stop   chan struct{}
	clock  sync.WaitGroup
}

// StartRedis starts a Redis. An error is one line that says what to do.
func StartRedis(cfg RedisConfig) (*Redis, error) {
	if cfg.Clock <= 0 {
		cfg.Clock = time.Second
	}
	r := &Redis{server: miniredis.NewMiniRedis(), addr: "redis.standin:6379", stop: make(chan struct{})}
	if cfg.Listen == "" {
		first, err := r.server.Dial() // which starts a server without TCP
		if err != nil {
			return nil, fmt.Errorf("starting the Redis stand-in: %w", err)
		}
		_ = first.Close()
	} else {
		err := r.server.StartAddr(cfg.Listen)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("the Redis stand-in cannot listen on %s: the port is in use; stop what holds it or choose another", cfg.Listen)
		case err != nil:
			return nil, fmt.Errorf("the Redis stand-in cannot listen on %s: %w", cfg.Listen, err)
		}
		r.addr = r.server.Addr()
	}
	r.clock.Go(func() { r.drive(cfg.Clock) })
	return r, nil
}

// drive lets the keys age. miniredis can do so by itself, but then looks through
// all keys at every command.
func (r *Redis) drive(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case now := <-ticker.C:
			r.server.FastForward(now.Sub(last))
			last = now
		case <-r.stop:
			return
		}
	}
}

// Addr is the address for clients. Without TCP it is a name that only Dial
// knows.
func (r *Redis) Addr() string { return r.addr }

// Dial connects within the process whatever the address; it fits a client's
// dialer option. Not miniredis' own Dial, whose connections have no buffers: a
// pipeline whose answers begin before it has been written would stand still.
func (r *Redis) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := Pipe()
	r.server.Server().ServeConn(server)
	return client, nil
}

// Server is miniredis itself, for tests that break it.
func (r *Redis) Server() *miniredis.Miniredis { return r.server }

// Close ends all connections.
func (r *Redis) Close() {
	close(r.stop)
	r.clock.Wait()
	r.server.Close()
}

package embedded

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// RedisConfig configures a Redis.
type RedisConfig struct {
	// Listen is host:port; port 0 takes a free one. Empty: no TCP, for tests that serve
	// connections of their own.
	Listen string
	// Password is what clients must know; empty: nothing.
	Password string
	// Clock is the interval at which expired keys are removed [1s].
	Clock time.Duration
}

// Redis is a Redis within this process. It keeps its data until Close.
type Redis struct {
	server *miniredis.Miniredis
	addr   string
	stop   chan struct{}
	clock  sync.WaitGroup
}

// StartRedis starts a Redis. The error is one line and names the remedy.
func StartRedis(cfg RedisConfig) (*Redis, error) {
	if cfg.Clock <= 0 {
		cfg.Clock = time.Second
	}
	r := &Redis{server: miniredis.NewMiniRedis(), addr: "redis.standin:6379", stop: make(chan struct{})}
	if cfg.Password != "" {
		r.server.RequireAuth(cfg.Password)
	}
	if cfg.Listen == "" {
		first, err := r.server.Dial() // this starts a server without TCP
		if err != nil {
			return nil, fmt.Errorf("starting the Redis stand-in: %w", err)
		}
		_ = first.Close()
	} else {
		err := r.server.StartAddr(cfg.Listen)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("the Redis stand-in cannot listen on %s: the port is in use; "+
				"stop what holds it or choose another", cfg.Listen)
		case err != nil:
			return nil, fmt.Errorf("the Redis stand-in cannot listen on %s: %w", cfg.Listen, err)
		}
		r.addr = r.server.Addr()
	}
	r.clock.Go(func() { r.drive(cfg.Clock) })
	return r, nil
}

// drive lets keys expire. miniredis can do so itself, but then it checks all keys at every
// command.
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

// Addr is the address for clients; a placeholder without TCP.
func (r *Redis) Addr() string { return r.addr }

// Server is the miniredis, for tests that connect to it or break it.
func (r *Redis) Server() *miniredis.Miniredis { return r.server }

// Close closes all connections.
func (r *Redis) Close() {
	close(r.stop)
	r.clock.Wait()
	r.server.Close()
}

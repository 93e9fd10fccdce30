package redisbus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

const (
	// pingInterval and silenceTimeout find a connection that broke without a sign.
	pingInterval   = 4 * time.Second
	silenceTimeout = 12 * time.Second
	minPause       = 50 * time.Millisecond
	maxPause       = 2 * time.Second
)

var errUnsubscribed = errors.New("the server ended a subscription")

// reconnect runs connection again and again until ctx ends, with a growing, jittered pause. It asks
// the server for its commands before each.
func (b *Bus) reconnect(ctx context.Context, connection func(context.Context, *commands) error) error {
	pause := minPause
	for ctx.Err() == nil {
		begun := time.Now()
		setup, cancel := context.WithTimeout(ctx, commandTimeout)
		server, err := b.serverCommands(setup)
		cancel()
		if err == nil {
			err = connection(ctx, server)
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > maxPause {
			pause = minPause
		}
		b.forgetCommands()
		b.metrics.BusLost.Inc()
		b.log.Warn("Redis subscriber connection lost; viewers get changes late until it is back",
			"error", err, "retry_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): // not all nodes at once
		}
		pause = min(2*pause, maxPause)
	}
	return nil
}

// traffic is what to do on subscriber connections.
type traffic struct {
	wake       <-chan struct{} // send has something to do; nil: never
	send       func(context.Context) error
	message    func(*redis.Message)
	subscribed func(channel string) // the server confirmed a SUBSCRIBE
	// unsubscribed reports whether the server ended a subscription that is wanted.
	unsubscribed func(channel string) bool
}

// run sends and receives on conns until one of them fails or ctx ends. Then it closes all of them.
func (t traffic) run(ctx context.Context, conns []*redis.PubSub) error {
	// Closing ends the receiving: a context cannot interrupt a read.
	defer context.AfterFunc(ctx, func() { closeAll(conns) })()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer closeAll(conns)
		return t.sendAndPing(ctx, conns)
	})
	for _, conn := range conns {
		parts.Go(func() error { return t.receive(ctx, conn) })
	}
	return parts.Wait()
}

func closeAll(conns []*redis.PubSub) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func pingAll(ctx context.Context, conns []*redis.PubSub) error {
	for _, conn := range conns {
		if err := conn.Ping(ctx); err != nil {
			return fmt.Errorf("pinging: %w", err)
		}
	}
	return nil
}

func (t traffic) sendAndPing(ctx context.Context, conns []*redis.PubSub) error {
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ping.C:
			err = pingAll(ctx, conns)
		case <-t.wake:
			err = t.send(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (t traffic) receive(ctx context.Context, conn *redis.PubSub) error {
	for {
		// Pings are answered every few seconds, so a timeout means that the connection is dead. After
		// one it cannot be used: the timeout may have cut a message in two.
		got, err := conn.ReceiveTimeout(ctx, silenceTimeout)
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		switch m := got.(type) {
		case *redis.Message:
			t.message(m)
		case *redis.Subscription:
			if !strings.HasSuffix(m.Kind, "unsubscribe") {
				t.subscribed(m.Channel)
			} else if t.unsubscribed(m.Channel) {
				return errUnsubscribed
			}
		}
	}
}

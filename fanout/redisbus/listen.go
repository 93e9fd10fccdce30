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

	"github.com/stillhere/stillhere/fanout"
)

const (
	// pingEvery and silentFor find a connection that died without a word.
	pingEvery = 4 * time.Second
	silentFor = 12 * time.Second
	// subscribeLength bounds the channels named in one command.
	subscribeLength = 500
	firstPause      = 50 * time.Millisecond
	longestPause    = 2 * time.Second
)

var errUnsubscribed = errors.New("the server left a channel of its own accord")

// Run keeps a subscribing connection and hands what comes to r, until ctx ends;
// then it returns nil and calls r no more.
func (b *Bus) Run(ctx context.Context, r fanout.Receiver) error {
	pause := firstPause
	for ctx.Err() == nil {
		begun := time.Now()
		if lost := b.connection(ctx, r); ctx.Err() == nil {
			if time.Since(begun) > longestPause {
				pause = firstPause
			}
			b.retryAfter(ctx, pause, lost)
			pause = min(2*pause, longestPause)
		}
	}
	return nil
}

func (b *Bus) retryAfter(ctx context.Context, pause time.Duration, lost error) {
	b.forgetCommands()
	b.metrics.BusLost.Inc()
	b.log.Warn("subscribing connection to Redis lost", "error", lost, "retry_in", pause)
	select {
	case <-ctx.Done():
	case <-time.After(pause/2 + rand.N(pause/2)): // not all nodes at once
	}
}

// connection is the life of the subscribing connections: it returns why that ended.
func (b *Bus) connection(ctx context.Context, r fanout.Receiver) error {
	setup, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	server, err := b.serverCommands(setup)
	if err != nil {
		return err
	}
	conns, err := b.connect(ctx, setup, server)
	defer conns.close()
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	// Receiving ends by closing only: its context cannot interrupt a read.
	stop := context.AfterFunc(ctx, conns.close)
	defer stop()

	complete := b.wanted.begin()
	defer b.wanted.lost()
	b.metrics.BusConnected.Set(1)
	defer b.metrics.BusConnected.Set(0)
	if complete {
		r.Connected()
	}
	parts, ctx := errgroup.WithContext(ctx)
	// Whichever ends first ends the others: the connections are closed, or ctx is.
	parts.Go(func() error {
		defer conns.close()
		return b.send(ctx, conns, r)
	})
	for _, conn := range conns.all {
		parts.Go(func() error { return b.receive(ctx, conn, r) })
	}
	return parts.Wait()
}

// send subscribes and unsubscribes as wanted, and pings.
func (b *Bus) send(ctx context.Context, conns *subscriberConns, r fanout.Receiver) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ping.C:
			if err := conns.ping(ctx); err != nil {
				return err
			}
		case <-b.wanted.wake:
			more, fewer, complete := b.wanted.next()
			if err := conns.unsubscribe(ctx, fewer); err != nil {
				return fmt.Errorf("unsubscribing: %w", err)
			}
			if err := conns.subscribe(ctx, more); err != nil {
				return fmt.Errorf("subscribing: %w", err)
			}
			if complete {
				r.Connected()
			}
		}
	}
}

// receive hands on what comes.
func (b *Bus) receive(ctx context.Context, conn *redis.PubSub, r fanout.Receiver) error {
	for {
		// Pings are answered every few seconds, so that a time-out means the connection
		// is dead; it cannot be used after one, which may have cut a message in two.
		got, err := conn.ReceiveTimeout(ctx, silentFor)
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		switch m := got.(type) {
		case *redis.Message:
			b.take(m, r)
		case *redis.Subscription:
			id, err := b.userOfChannel(m.Channel)
			if err != nil {
				continue
			}
			if strings.HasSuffix(m.Kind, "unsubscribe") {
				if b.wanted.lostByServer(id) {
					return errUnsubscribed
				}
			} else if b.wanted.confirmed(id) {
				r.Connected()
			}
		}
	}
}

func (b *Bus) take(m *redis.Message, r fanout.Receiver) {
	c, err := parseMessage(m.Payload)
	if err != nil {
		b.metrics.BusUnreadable.Inc()
		b.log.Warn("message that cannot be read", "channel", m.Channel, "error", err)
		return
	}
	b.metrics.ChangesTaken.Inc()
	r.Change(c)
}

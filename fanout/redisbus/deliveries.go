package redisbus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/schemas"
)

// Deliveries travel on one channel that every node listens on: a node picks those of
// up to 1,000 recipients who are its own in microseconds, while a channel for each
// recipient would take Redis a command for each.
func (b *Bus) deliveriesName() string { return b.channels + "deliveries" }

// PublishDelivery tells all nodes that listen now; see channel.Bus.
func (b *Bus) PublishDelivery(ctx context.Context, d *schemas.Delivery) error {
	server, err := b.serverCommands(ctx)
	if err == nil {
		err = b.client.Do(ctx, server.publish, b.deliveriesName(), d.Encode()).Err()
	}
	if err != nil {
		b.forgetCommands()
		return fmt.Errorf("publishing a delivery to Redis: %w", err)
	}
	return nil
}

// RunDeliveries hands what is published to take, from one goroutine, until ctx ends;
// then it returns nil. What is published while the connection is lost is missed.
// listening, if not nil, is called whenever the connection stands.
func (b *Bus) RunDeliveries(ctx context.Context, take func(*schemas.Delivery), listening func()) error {
	pause := firstPause
	for ctx.Err() == nil {
		begun := time.Now()
		if lost := b.deliveries(ctx, take, listening); ctx.Err() == nil {
			if time.Since(begun) > longestPause {
				pause = firstPause
			}
			b.retryAfter(ctx, pause, lost)
			pause = min(2*pause, longestPause)
		}
	}
	return nil
}

// deliveries is the life of one connection: it returns why that ended.
func (b *Bus) deliveries(ctx context.Context, take func(*schemas.Delivery), listening func()) error {
	setup, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	server, err := b.serverCommands(setup)
	if err != nil {
		return err
	}
	var conn *redis.PubSub
	if server.sharded {
		conn = b.client.SSubscribe(ctx, b.deliveriesName())
	} else {
		conn = b.client.Subscribe(ctx, b.deliveriesName())
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer func() { _ = conn.Close() }() // ends the receiving
		ping := time.NewTicker(pingEvery)
		defer ping.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ping.C:
				if err := conn.Ping(ctx); err != nil {
					return fmt.Errorf("pinging: %w", err)
				}
			}
		}
	})
	parts.Go(func() error {
		for {
			got, err := conn.ReceiveTimeout(ctx, silentFor)
			if err != nil {
				return fmt.Errorf("receiving: %w", err)
			}
			switch m := got.(type) {
			case *redis.Message:
				b.takeDelivery(m, take)
			case *redis.Subscription:
				if strings.HasSuffix(m.Kind, "unsubscribe") {
					return errUnsubscribed
				}
				if listening != nil {
					listening()
				}
			}
		}
	})
	return parts.Wait()
}

func (b *Bus) takeDelivery(m *redis.Message, take func(*schemas.Delivery)) {
	d, err := schemas.DecodeDelivery([]byte(m.Payload))
	if err != nil {
		b.metrics.BusUnreadable.Inc()
		b.log.Warn("delivery that cannot be read", "channel", m.Channel, "error", err)
		return
	}
	take(d)
}

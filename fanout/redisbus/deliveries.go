package redisbus

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Deliveries travel on one channel to which every node subscribes. A node picks its own among up to
// 1,000 recipients in microseconds; a channel for each recipient would cost Redis a command for
// each.
func (b *Bus) deliveriesName() string { return b.channels + "deliveries" }

// PublishDelivery publishes d to all nodes that are subscribed now; see channel.Bus.
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

// RunDeliveries hands what is published to take, from one goroutine, until ctx ends; then it returns
// nil. It misses what is published while the connection is lost. If listening is not nil, it is
// called each time the channel is subscribed.
func (b *Bus) RunDeliveries(ctx context.Context, take func(*schemas.Delivery), listening func()) error {
	t := traffic{
		message: func(m *redis.Message) {
			d, err := schemas.DecodeDelivery([]byte(m.Payload))
			if err != nil {
				b.unreadable("delivery cannot be read; dropping it", "channel", m.Channel, err)
				return
			}
			take(d)
		},
		subscribed: func(string) {
			if listening != nil {
				listening()
			}
		},
		unsubscribed: func(string) bool { return true },
	}
	return b.reconnect(ctx, func(ctx context.Context, server *commands) error {
		subscribe := b.client.Subscribe
		if server.sharded {
			subscribe = b.client.SSubscribe
		}
		return t.run(ctx, []*redis.PubSub{subscribe(ctx, b.deliveriesName())})
	})
}

package redisbus

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// subscribeLength bounds the channels in one command.
const subscribeLength = 500

// subscriberConns are the subscriber connections of one connected time: one, or one to each master
// of a cluster. If one of them is lost or loses a slot to another master, all of them end, and the
// next connected time begins with the cluster as it is then. So there is one truth about what is
// subscribed.
type subscriberConns struct {
	bus     *Bus
	sharded bool
	all     []*redis.PubSub
	of      map[*redis.Client]*redis.PubSub // in a cluster
}

// Run subscribes to the wanted channels and hands changes to r until ctx ends. Then it returns nil
// and does not call r any more.
func (b *Bus) Run(ctx context.Context, r fanout.Receiver) error {
	return b.reconnect(ctx, func(ctx context.Context, server *commands) error { return b.subscribed(ctx, server, r) })
}

// subscribed is one connected time. It returns why that ended.
func (b *Bus) subscribed(ctx context.Context, server *commands, r fanout.Receiver) error {
	conns, err := b.connect(ctx, server)
	defer func() { closeAll(conns.all) }()
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	complete := b.wanted.begin()
	defer r.Disconnected() // after lost: from then on no Subscribe succeeds on this connection
	defer b.wanted.lost()
	b.metrics.BusConnected.Set(1)
	defer b.metrics.BusConnected.Set(0)
	if complete {
		r.Connected()
	}
	return traffic{
		wake: b.wanted.wake,
		send: func(ctx context.Context) error {
			more, fewer, complete := b.wanted.next()
			if err := conns.send(ctx, fewer, conns.unsubscribe); err != nil {
				return fmt.Errorf("unsubscribing: %w", err)
			}
			if err := conns.send(ctx, more, conns.subscribe); err != nil {
				return fmt.Errorf("subscribing: %w", err)
			}
			if complete {
				r.Connected()
			}
			return nil
		},
		message: func(m *redis.Message) {
			if m.Payload == rereadMessage {
				if id, err := b.userOfChannel(m.Channel); err == nil {
					r.Reread(id)
				}
				return
			}
			c, err := parseMessage(m.Payload)
			if err != nil {
				b.unreadable("message on a channel cannot be read; dropping it", "channel", m.Channel, err)
				return
			}
			b.metrics.ChangesTaken.Inc()
			r.Change(c)
		},
		subscribed: func(channel string) {
			if id, err := b.userOfChannel(channel); err == nil && b.wanted.confirmed(id) {
				r.Connected()
			}
		},
		unsubscribed: func(channel string) bool {
			id, err := b.userOfChannel(channel)
			return err == nil && b.wanted.lostByServer(id)
		},
	}.run(ctx, conns.all)
}

// connect makes the connections. The caller closes them, also after an error.
func (b *Bus) connect(ctx context.Context, server *commands) (*subscriberConns, error) {
	setup, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	s := &subscriberConns{bus: b, sharded: server.sharded, of: map[*redis.Client]*redis.PubSub{}}
	if b.cluster == nil || !server.sharded {
		// Plain pub/sub reaches every node of a cluster. This subscribes to no channel and connects at
		// the first use.
		s.all = append(s.all, b.client.Subscribe(ctx))
		return s, pingAll(setup, s.all)
	}
	var mu sync.Mutex
	err := b.cluster.ForEachMaster(setup, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		conn := node.Subscribe(ctx)
		s.all = append(s.all, conn)
		s.of[node] = conn
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("asking for the nodes of the cluster: %w", err)
	}
	return s, pingAll(setup, s.all)
}

func (s *subscriberConns) subscribe(ctx context.Context, conn *redis.PubSub, names []string) error {
	if s.sharded {
		return conn.SSubscribe(ctx, names...)
	}
	return conn.Subscribe(ctx, names...)
}

func (s *subscriberConns) unsubscribe(ctx context.Context, conn *redis.PubSub, names []string) error {
	if s.sharded {
		return conn.SUnsubscribe(ctx, names...)
	}
	return conn.Unsubscribe(ctx, names...)
}

// send sends one command for many users; in a cluster, where the channels of one command must be in
// one slot, one command for each.
func (s *subscriberConns) send(ctx context.Context, users []schemas.UserID,
	command func(context.Context, *redis.PubSub, []string) error) error {
	length := subscribeLength
	if len(s.of) > 0 {
		length = 1
	}
	for part := range slices.Chunk(users, length) {
		names := make([]string, len(part))
		for i, id := range part {
			names[i] = s.bus.channelName(id)
		}
		conn, err := s.connOf(ctx, names[0])
		if err != nil {
			return err
		}
		if err := command(ctx, conn, names); err != nil {
			return err
		}
	}
	return nil
}

func (s *subscriberConns) connOf(ctx context.Context, channel string) (*redis.PubSub, error) {
	if len(s.of) == 0 {
		return s.all[0], nil
	}
	node, err := s.bus.cluster.MasterForKey(ctx, channel)
	if err != nil {
		return nil, fmt.Errorf("asking for the master of channel %s: %w", channel, err)
	}
	conn := s.of[node]
	if conn == nil {
		return nil, fmt.Errorf("the master of channel %s joined later", channel)
	}
	return conn, nil
}

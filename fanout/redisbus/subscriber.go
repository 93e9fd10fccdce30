package redisbus

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// wires are the subscribing connections of one connected time: one, or in a
// cluster one to each master. They live and die together: whichever is lost, or
// loses a slot to another master, ends them all, and the next time begins with the
// cluster as it is then. So there is one truth about what is subscribed.
type subscriberConns struct {
	bus     *Bus
	sharded bool
	all     []*redis.PubSub
	of      map[*redis.Client]*redis.PubSub // in a cluster
}

// connect makes the connections; close them whatever becomes of it.
func (b *Bus) connect(ctx, setup context.Context, server *commands) (*subscriberConns, error) {
	s := &subscriberConns{bus: b, sharded: server.sharded, of: map[*redis.Client]*redis.PubSub{}}
	switch {
	case b.cluster == nil, !server.sharded:
		// What is published plainly reaches every node of a cluster.
		s.all = append(s.all, b.client.Subscribe(ctx)) // of no channels: this connects nothing yet
	default:
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
	}
	return s, s.ping(setup)
}

func (s *subscriberConns) close() {
	for _, conn := range s.all {
		_ = conn.Close()
	}
}

func (s *subscriberConns) ping(ctx context.Context) error {
	for _, conn := range s.all {
		if err := conn.Ping(ctx); err != nil {
			return fmt.Errorf("pinging: %w", err)
		}
	}
	return nil
}

func (s *subscriberConns) subscribe(ctx context.Context, users []schemas.UserID) error {
	return s.forChannels(ctx, users, func(conn *redis.PubSub, names []string) error {
		if s.sharded {
			return conn.SSubscribe(ctx, names...)
		}
		return conn.Subscribe(ctx, names...)
	})
}

func (s *subscriberConns) unsubscribe(ctx context.Context, users []schemas.UserID) error {
	return s.forChannels(ctx, users, func(conn *redis.PubSub, names []string) error {
		if s.sharded {
			return conn.SUnsubscribe(ctx, names...)
		}
		return conn.Unsubscribe(ctx, names...)
	})
}

// tell sends one command for many users, or in a cluster, where the channels of
// one command must lie in one slot, one for each.
func (s *subscriberConns) forChannels(ctx context.Context, users []schemas.UserID, command func(*redis.PubSub, []string) error) error {
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
		if err := command(conn, names); err != nil {
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
		return nil, fmt.Errorf("asking whose channel %s is: %w", channel, err)
	}
	conn := s.of[node]
	if conn == nil {
		return nil, fmt.Errorf("channel %s is of a master that joined later", channel)
	}
	return conn, nil
}

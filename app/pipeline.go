package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// redisPrefix is what keys and channels begin with where Redis.Prefix does not say: a
// different one for each prefix of topics, and presence: for presence. (a colon cannot be
// in a topic's name).
func redisPrefix(topics string) string {
	if topics == "" {
		topics = schemas.DefaultPrefix
	}
	if name, dotted := strings.CutSuffix(topics, "."); dotted {
		return name + ":"
	}
	return topics + "::"
}

// named is r with the prefix of the pipeline that kafka names.
func (r Redis) named(cluster kafka.Config) Redis {
	if r.Prefix == "" {
		r.Prefix = redisPrefix(cluster.Prefix)
	}
	return r
}

func (r Redis) view(retention time.Duration) redisview.Options {
	return redisview.Options{
		Addrs: r.addrs(), Master: r.Master, Cluster: r.Cluster, Username: r.Username, Password: r.Password, Credentials: r.Credentials,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword, Database: r.DB, PoolSize: r.PoolSize, TLS: r.TLS, Dialer: r.Dialer,
		Prefix: r.Prefix, Retention: retention,
	}
}

// errNotOurs says that another pipeline uses the same keys of Redis.
var errNotOurs = errors.New("they belong to another pipeline")

// mark looks whether the keys of Redis are this pipeline's.
type redisClaim struct {
	view   *redisview.View
	prefix string
	self   string
}

// claimTimeout bounds one look.
const claimTimeout = 5 * time.Second

// newRedisClaim prepares looking; Redis may be away.
func newRedisClaim(ctx context.Context, cluster kafka.Config, redis Redis) (*redisClaim, error) {
	id, err := kafka.ClusterID(ctx, cluster)
	if err != nil {
		return nil, err
	}
	redis.PoolSize = 1
	view, err := redisview.Open(redis.view(time.Hour))
	if err != nil {
		return nil, err
	}
	topics := cluster.Prefix
	if topics == "" {
		topics = schemas.DefaultPrefix
	}
	return &redisClaim{view: view, prefix: redis.Prefix, self: fmt.Sprintf("topics %s* of the Kafka cluster %q", topics, id)}, nil
}

// claim is errNotOurs where the keys are another pipeline's; any other error may pass.
func (m *redisClaim) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	owner, err := m.view.Claim(ctx, m.self)
	if err == nil && owner != m.self {
		err = fmt.Errorf("redis_prefix: the keys %s* of Redis: %w: they are those of the %s, this is the %s; "+
			"give this one another --redis-prefix (or --topic-prefix, or Redis), or, if the other one is gone, delete the key %spipeline",
			m.prefix, errNotOurs, owner, m.self, m.prefix)
	}
	return err
}

// claimRedis refuses to start on the keys of another pipeline. Where Redis does not
// answer yet, the process ends as soon as Redis says so. A running process writes the
// mark again when Redis has lost it.
func (b *builder) claimRedis(ctx context.Context) error {
	m, err := newRedisClaim(ctx, b.config.Kafka, b.config.Redis)
	if err != nil {
		return err
	}
	b.closeLater("mark in Redis", func(context.Context) error { return m.view.Close() })
	first := m.claim(ctx)
	if errors.Is(first, errNotOurs) {
		return first
	}
	b.service("mark in Redis", loops, func(ctx context.Context) error {
		settled := first == nil
		for {
			wait := time.Second
			if settled {
				wait = b.config.TopicsEvery
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			switch err := m.claim(ctx); {
			case err == nil:
				settled = true
			case errors.Is(err, errNotOurs) && !settled:
				return err
			case errors.Is(err, errNotOurs):
				b.log.Error("another pipeline has taken the keys in Redis", "error", err)
			}
		}
	})
	return nil
}

// checkRedis is claimRedis for a command: Redis has to answer.
func checkRedis(ctx context.Context, cluster kafka.Config, redis Redis) error {
	m, err := newRedisClaim(ctx, cluster, redis)
	if err != nil {
		return err
	}
	return errors.Join(m.claim(ctx), m.view.Close())
}

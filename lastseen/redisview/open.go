// Package redisview keeps the current status of users in Redis, one key each, and reports how far it can
// be relied on. It is the only package of the service with a Redis client.
package redisview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	store "github.com/stillhere/stillhere/internal/redis"
)

// Options are the address of Redis and its limits.
type Options = store.Options

// View is what Redis knows. All methods may be called from any goroutine.
type View struct {
	client      redis.UniversalClient
	cluster     bool
	prefix      string
	retention   time.Duration
	lifetime    time.Duration // of recent progress
	progress    atomic.Pointer[progressSnapshot]
	connects    atomic.Int64 // connections made so far
	fresh       freshReads
	nodeCheck   nodeCheck
	sharedReads sharedReads
}

// Open makes a view. It connects when first used, so Redis may be down. retention is how long a user
// who is offline and visible stays.
func Open(options Options, retention time.Duration) (*View, error) {
	err := options.Validate()
	if retention < time.Minute {
		err = errors.Join(err, fmt.Errorf("redis_retention: must be at least 1m, is %s", retention))
	}
	if err != nil {
		return nil, err
	}
	options = options.WithDefaults()
	v := &View{cluster: options.Cluster, prefix: options.Prefix, retention: retention, lifetime: progressLifetime}
	v.client = options.Client(func(u *redis.UniversalOptions) {
		u.OnConnect = func(context.Context, *redis.Conn) error {
			v.connects.Add(1)
			return nil
		}
		// A reader has another store to ask, and the Kafka consumer retries itself.
		u.MaxRetries, u.DialerRetries = 1, 1
	})
	return v, nil
}

// Close closes the connections and waits for reads under way.
func (v *View) Close() error {
	err := v.client.Close()
	v.sharedReads.work.Wait()
	return err
}

// Ping returns an error if Redis does not answer.
func (v *View) Ping(ctx context.Context) error {
	if err := v.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("reaching Redis: %w", err)
	}
	return nil
}

// CheckEviction reports settings under which Redis would evict users who are not offline. Reads stay
// right then, because the durable store answers, but slow. A server that refuses CONFIG passes.
func (v *View) CheckEviction(ctx context.Context) error {
	const setting = "maxmemory-policy"
	values, err := v.client.ConfigGet(ctx, setting).Result()
	if err != nil {
		return nil //nolint:nilerr // hosted servers and miniredis refuse CONFIG
	}
	if policy := values[setting]; strings.HasPrefix(policy, "allkeys-") {
		return fmt.Errorf("redis %s is %s, under which online users are evicted; set noeviction or volatile-ttl", setting, policy)
	}
	return nil
}

// PoolStats are the counters of the connections to Redis.
func (v *View) PoolStats() redis.PoolStats { return *v.client.PoolStats() }

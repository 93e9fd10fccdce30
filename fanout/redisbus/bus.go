// Package redisbus brings changes from the publisher to the nodes that have viewers, by Redis
// pub/sub, and stores the newest change of each user for a while. Of fan-out's packages only this
// one has a Redis client.
//
// Each user has a channel presence:live:{42} and a key presence:recent:{42}. Where the server has
// sharded pub/sub (Redis 7, Valkey) both sides use it, else plain pub/sub. Both ask the server, and
// ask again after every failure, so they agree also after an upgrade of the server.
//
// A node has one subscriber connection, or one to each master of a Redis Cluster. Run replaces it
// when it is lost. What should be subscribed is stored apart from the connection (channels.go), so
// that subscribing needs no connection and a lost connection loses nothing that matters.
package redisbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/fanout"
	store "github.com/stillhere/stillhere/internal/redis"
)

const (
	// commandTimeout bounds one pipeline. The caller tries again, so a hanging Redis blocks nobody
	// longer than this.
	commandTimeout = 5 * time.Second
	// pipelineLength bounds the changes in one pipeline.
	pipelineLength = 500
	// scriptLength bounds the changes of one call of the script. Redis does nothing else during a
	// call (about a millisecond).
	scriptLength = 100
)

// Options say where Redis is. All publishers and subscribers must have the same Prefix.
type Options = store.Options

// Bus is a connection pool for publishing and reading, and the subscriptions of this process. Its
// methods may be called concurrently, but Run only once at a time.
type Bus struct {
	client   redis.UniversalClient
	cluster  *redis.ClusterClient // client, when it is one
	prefix   string               // of keys
	channels string               // prefix of channels, with the database number: pub/sub ignores databases
	cfg      fanout.Config
	metrics  *fanout.Metrics
	log      *slog.Logger
	wanted   *channels
	commands atomic.Pointer[commands] // nil: ask the server
}

// Open prepares a Bus. It connects when first used, so a process can start while Redis is away. log
// may be nil.
func Open(o Options, cfg fanout.Config, metrics *fanout.Metrics, log *slog.Logger) (*Bus, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("opening the Redis bus: %w", err)
	}
	o = o.WithDefaults()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	client := o.Client(func(u *redis.UniversalOptions) { u.ClientName = "stillhere-fanout" })
	cluster, _ := client.(*redis.ClusterClient)
	channels := o.Prefix
	if o.DB != 0 {
		channels += "db" + strconv.Itoa(o.DB) + ":"
	}
	return &Bus{client: client, cluster: cluster, prefix: o.Prefix, channels: channels, cfg: cfg, metrics: metrics,
		log: log, wanted: newChannels(metrics)}, nil
}

// Close closes all connections. Call it after Run has returned.
func (b *Bus) Close() error { return b.client.Close() }

// PoolStats returns the figures of the connection pool, without the subscriber connections.
func (b *Bus) PoolStats() redis.PoolStats { return *b.client.PoolStats() }

// commands are the publishing and subscribing commands that the server has.
type commands struct {
	publish string
	sharded bool
}

// serverCommands asks the server once, and again after forgetCommands.
func (b *Bus) serverCommands(ctx context.Context) (*commands, error) {
	if known := b.commands.Load(); known != nil {
		return known, nil
	}
	found := &commands{publish: "SPUBLISH", sharded: true}
	if err := b.client.Do(ctx, "SPUBLISH", b.channels+"probe", "").Err(); err != nil {
		var refusal redis.Error
		if !errors.As(err, &refusal) || !strings.Contains(strings.ToLower(err.Error()), "unknown command") {
			return nil, fmt.Errorf("asking Redis for sharded pub/sub: %w", err)
		}
		found = &commands{publish: "PUBLISH"}
	}
	b.commands.Store(found)
	return found, nil
}

// forgetCommands makes the next use ask again, because the server may be another one.
func (b *Bus) forgetCommands() { b.commands.Store(nil) }

// unreadable counts and logs what cannot be read, such as what a newer program wrote.
func (b *Bus) unreadable(message, key string, value any, err error) {
	b.metrics.BusUnreadable.Inc()
	b.log.Warn(message, key, value, "error", err)
}

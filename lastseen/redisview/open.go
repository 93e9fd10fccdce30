// Package redisview keeps the current status of users in Redis, one key each,
// and tells how far it can be relied on. It is the only package of the room that
// speaks Redis.
package redisview

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say which Redis and how to treat it.
type Options struct {
	// Addrs are host:port of the server, of the Sentinels (with Master) or of some
	// nodes of a cluster (with Cluster).
	Addrs []string
	// Master is the name by which the Sentinels know the server.
	Master string
	// Cluster says that Addrs are nodes of a Redis Cluster.
	Cluster            bool
	Username, Password string
	// Credentials is asked for user and password before each connection to a server,
	// in place of the two fields.
	Credentials func(ctx context.Context) (username, password string, err error)
	// SentinelUsername and SentinelPassword are those of the Sentinels.
	SentinelUsername, SentinelPassword string
	// Database is the number of the database; not with Cluster.
	Database int
	TLS      *tls.Config
	// Dialer connects in place of the network; nil: the network.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// Prefix begins all keys. Empty stands for "presence:".
	Prefix string
	// Retention is how long a user who is offline and visible stays.
	Retention time.Duration
	// PoolSize is the number of connections per node; 0: ten per core.
	PoolSize int
}

// Validate reports everything that is wrong, joined, each fault naming its
// setting.
func (o Options) Validate() error {
	var faults []error
	if len(o.Addrs) == 0 {
		faults = append(faults, errors.New("redis_addrs: must name at least one host:port"))
	}
	if len(o.Addrs) > 1 && !o.Cluster && o.Master == "" {
		faults = append(faults, errors.New("redis_addrs: several are those of a cluster or of Sentinels: say which"))
	}
	if o.Cluster && o.Master != "" {
		faults = append(faults, errors.New("redis_cluster, redis_master: a cluster has no Sentinels"))
	}
	if o.Cluster && o.Database != 0 {
		faults = append(faults, errors.New("redis_database: a cluster has only database 0"))
	}
	if o.Retention < time.Minute {
		faults = append(faults, fmt.Errorf("redis_retention: must be at least 1m, is %s", o.Retention))
	}
	return errors.Join(faults...)
}

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

// Open makes a view. It connects when first used, so Redis may be down.
func Open(options Options) (*View, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if options.Prefix == "" {
		options.Prefix = "presence:"
	}
	v := &View{cluster: options.Cluster, prefix: options.Prefix, retention: options.Retention, lifetime: progressLifetime}
	v.client = redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: options.Addrs, MasterName: options.Master, IsClusterMode: options.Cluster, DB: options.Database,
		Username: options.Username, Password: options.Password, CredentialsProviderContext: options.Credentials,
		SentinelUsername: options.SentinelUsername, SentinelPassword: options.SentinelPassword,
		TLSConfig: options.TLS, Dialer: options.Dialer, PoolSize: options.PoolSize,
		OnConnect: func(context.Context, *redis.Conn) error {
			v.connects.Add(1)
			return nil
		},
		// Without it, the client does not heed the deadlines of contexts.
		ContextTimeoutEnabled: true,
		// A reader has somebody else to ask, and the Kafka loop tries again itself.
		MaxRetries: 1, DialerRetries: 1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return v, nil
}

// Close closes the connections and waits for reads under way.
func (v *View) Close() error {
	err := v.client.Close()
	v.sharedReads.work.Wait()
	return err
}

// Ping tells whether Redis answers.
func (v *View) Ping(ctx context.Context) error {
	if err := v.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("reaching Redis: %w", err)
	}
	return nil
}

// CheckEviction reports settings under which Redis would throw away users who
// are not offline. Reads stay right then, because the durable store answers, but
// slow. A server that does not tell its settings passes.
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

// PoolStats tells what the connections to Redis are doing.
func (v *View) PoolStats() redis.PoolStats { return *v.client.PoolStats() }

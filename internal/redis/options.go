// Package redis creates the clients of Redis that fanout/redisbus and lastseen/redisview use: one
// server, a server behind Sentinels, or a cluster.
package redis

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/stillhere/stillhere/internal/faults"
)

// PoolStats are the figures of a connection pool.
type PoolStats = redis.PoolStats

// Options say where Redis is.
type Options struct {
	Addr string // host:port of a server
	// Addrs replaces Addr: the Sentinels (with Master) or some nodes of a cluster (with Cluster).
	Addrs []string
	// Master is the name by which the Sentinels know the server.
	Master string
	// Cluster says that Addrs are nodes of a Redis Cluster.
	Cluster  bool
	Username string
	Password string
	// Credentials is called for user and password before each connection to a server, and replaces
	// the two fields. SentinelUsername and SentinelPassword are those of the Sentinels.
	Credentials                        func(ctx context.Context) (username, password string, err error)
	SentinelUsername, SentinelPassword string
	DB                                 int         // not with Cluster
	PoolSize                           int         // connections per server, without subscriber connections; 0: ten per core
	TLS                                *tls.Config // nil: none
	// Prefix begins all names of keys and channels [presence:].
	Prefix string
	// Dialer replaces the network; nil: TCP.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Validate reports all faults, joined; each names its setting.
func (o Options) Validate() error {
	var all faults.List
	all.If(o.Addr == "" && len(o.Addrs) == 0 && o.Dialer == nil, "redis_addrs: must name at least one host:port")
	all.If(len(o.Addrs) > 1 && !o.Cluster && o.Master == "",
		"redis_addrs: several are those of a cluster or of Sentinels: say which")
	all.If(o.Cluster && o.Master != "", "redis_cluster, redis_master: a cluster has no Sentinels")
	all.If(o.Cluster && o.DB != 0, "redis: a cluster has only database 0")
	return all.Err()
}

// WithDefaults returns o with the default prefix if it has none.
func (o Options) WithDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "presence:"
	}
	return o
}

// Client makes a client, which connects when it is first used. tweak changes its settings.
func (o Options) Client(tweak func(*redis.UniversalOptions)) redis.UniversalClient {
	addrs := o.Addrs
	if len(addrs) == 0 {
		addrs = []string{o.Addr}
	}
	settings := &redis.UniversalOptions{
		Addrs: addrs, MasterName: o.Master, IsClusterMode: o.Cluster, DB: o.DB,
		Username: o.Username, Password: o.Password, CredentialsProviderContext: o.Credentials,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		TLSConfig: o.TLS, Dialer: o.Dialer, PoolSize: o.PoolSize,
		ContextTimeoutEnabled: true, // without it the client ignores the deadlines of contexts
		DisableIdentity:       true,
		// The subscriber must see a lost connection: a silent handover is a gap.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	tweak(settings)
	return redis.NewUniversalClient(settings)
}

package redisbus

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say where Redis is.
type Options struct {
	Addr string // host:port of a server
	// Addrs stand in place of Addr: the Sentinels (with Master) or some nodes of a
	// cluster (with Cluster).
	Addrs []string
	// Master is the name by which the Sentinels know the server.
	Master string
	// Cluster says that Addrs are nodes of a Redis Cluster.
	Cluster  bool
	Username string
	Password string
	// Credentials is asked for user and password before each connection to a server,
	// in place of the two fields.
	Credentials func(ctx context.Context) (username, password string, err error)
	// SentinelUsername and SentinelPassword are those of the Sentinels.
	SentinelUsername, SentinelPassword string
	DB                                 int         // not with Cluster
	TLS                                *tls.Config // nil: none
	// Dialer replaces the network; nil: TCP.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Prefix is what names of keys and channels begin with [presence:]. All that
	// publish and listen must have the same.
	Prefix string
	// PoolSize is how many connections to a server there may be, besides the
	// subscribing one; 0: ten per core.
	PoolSize int
}

func (o Options) addrs() []string {
	if len(o.Addrs) > 0 {
		return o.Addrs
	}
	return []string{o.Addr}
}

func (o Options) validate() error {
	switch {
	case o.Addr == "" && len(o.Addrs) == 0 && o.Dialer == nil:
		return errors.New("no address")
	case o.Cluster && o.Master != "":
		return errors.New("a cluster has no Sentinels")
	case o.Cluster && o.DB != 0:
		return errors.New("a cluster has only database 0")
	case len(o.Addrs) > 1 && !o.Cluster && o.Master == "":
		return errors.New("several addresses are those of a cluster or of Sentinels: say which")
	}
	return nil
}

func (o Options) client() redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: o.addrs(), MasterName: o.Master, IsClusterMode: o.Cluster, DB: o.DB,
		Username: o.Username, Password: o.Password, CredentialsProviderContext: o.Credentials,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		TLSConfig: o.TLS, Dialer: o.Dialer, PoolSize: o.PoolSize,
		ClientName:            "stillhere-fanout",
		ContextTimeoutEnabled: true, // off by default: deadlines would be ignored
		DisableIdentity:       true,
		// The bus sees a lost connection itself, and must: a silent handover is a gap.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

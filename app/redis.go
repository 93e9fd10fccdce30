package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/redis"
)

// Redis says where Redis is, and who this process is there. The tags describe the flags of
// the command line that set the fields. Files are read again for every connection.
type Redis struct {
	Addrs    []string `name:"redis" help:"Address of Redis, host:port or a redis:// or rediss:// URL; with --redis-master the addresses of the Sentinels, with --redis-cluster those of some nodes." default:"127.0.0.1:6379"`
	Master   string   `name:"redis-master" help:"Master name at the Sentinels."`
	Cluster  bool     `name:"redis-cluster" help:"Connect to a Redis Cluster."`
	User     string   `name:"redis-user" help:"User for Redis."`
	Password string   `name:"redis-password" secret:"" hidden:""`

	PasswordFile     string `name:"redis-password-file" help:"File with the password for --redis-user, read again for every connection. Or set STILLHERE_REDIS_PASSWORD." type:"path"`
	SentinelUser     string `name:"redis-sentinel-user" help:"User for the Sentinels; set the password in STILLHERE_REDIS_SENTINEL_PASSWORD."`
	SentinelPassword string `name:"redis-sentinel-password" secret:"" hidden:""`

	TLS     bool   `name:"redis-tls" help:"Connect to Redis, and to Sentinels, with TLS."`
	TLSCA   string `name:"redis-tls-ca" help:"File with the CA certificates to trust (PEM). Default: the system's." type:"path"`
	TLSCert string `name:"redis-tls-cert" help:"File with this client's certificate (PEM)." type:"path"`
	TLSKey  string `name:"redis-tls-key" help:"File with this client's key (PEM)." type:"path"`

	DB       int    `kong:"-"` // the database of a URL
	Prefix   string `name:"redis-prefix" help:"Prefix of keys and channels, so that pipelines can share a Redis. Default: derived from --topic-prefix (presence: for presence.)."`
	PoolSize int    `name:"redis-pool-size" help:"Connections to each server, separately for reads and writes; 0: ten per core." default:"0"`

	// Dialer replaces the network, e.g. in virtual time.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error) `kong:"-"`
}

// given reports whether a Redis is configured.
func (r Redis) given() bool { return len(r.Addrs) > 0 || r.Dialer != nil }

// options checks r and converts it. topics is the prefix of the topics, from which the
// default prefix of keys follows. The error names every flag that is wrong.
func (r Redis) options(topics string) (redis.Options, error) {
	var all faults.List
	for _, address := range r.Addrs {
		if strings.Contains(address, "://") {
			all.If(len(r.Addrs) > 1, "--redis: a URL names one server; give several as host:port")
			all.In("--redis", r.fromURL(address))
		}
	}
	all.If(!r.given(), "redis: an address is needed, e.g. 127.0.0.1:6379")
	for _, address := range r.Addrs {
		_, _, err := net.SplitHostPort(address)
		all.If(err != nil && r.Dialer == nil && len(all) == 0, "redis: %q must be host:port", address)
	}
	all.If(r.Cluster && r.Master != "", "redis_cluster, redis_master: a cluster has no Sentinels; set one of the two")
	all.If(r.Cluster && r.DB != 0, "--redis: a cluster has only database 0, the URL has %d", r.DB)
	all.If(len(r.Addrs) > 1 && !r.Cluster && r.Master == "",
		"redis: several addresses are those of a cluster or of Sentinels; set redis_cluster or redis_master")
	all.If(r.PoolSize < 0, "redis_pool_size: must not be negative, is %d", r.PoolSize)
	all.If(r.Master == "" && r.SentinelUser+r.SentinelPassword != "",
		"--redis-sentinel-user and STILLHERE_REDIS_SENTINEL_PASSWORD need --redis-master")
	all.Add(checkRedisPrefix(r.Prefix))
	password := keys.Secret{Value: r.Password, File: r.PasswordFile}
	all.If(password.Value != "" && password.File != "", "--redis-password-file and STILLHERE_REDIS_PASSWORD exclude each other")
	_, err := password.Read()
	all.In("--redis-password-file", err)
	files := keys.TLS{CA: r.TLSCA, Cert: r.TLSCert, Key: r.TLSKey}
	all.Add(files.CheckFlags("--redis-tls", r.TLS))

	o := redis.Options{
		Addrs: r.Addrs, Master: r.Master, Cluster: r.Cluster, DB: r.DB, PoolSize: r.PoolSize, Prefix: r.Prefix, Dialer: r.Dialer,
		SentinelUsername: r.SentinelUser, SentinelPassword: r.SentinelPassword,
	}
	if r.User != "" || password.Given() {
		o.Credentials = func(context.Context) (string, string, error) {
			text, err := password.Read()
			return r.User, text, err
		}
	}
	if r.TLS {
		o.Dialer = files.Dialer(r.Dialer)
	}
	if o.Prefix == "" {
		o.Prefix = redisPrefix(topics)
	}
	return o, all.Err()
}

// fromURL takes the settings of a URL. Flags override it.
func (r *Redis) fromURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return errors.New("must be redis://[user:password@]host:port[/database] or rediss://…") // the text may have a password
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	r.Addrs = []string{net.JoinHostPort(u.Hostname(), port)}
	r.TLS = r.TLS || u.Scheme == "rediss"
	if r.User == "" {
		r.User = u.User.Username()
	}
	if password, given := u.User.Password(); given && r.Password == "" && r.PasswordFile == "" {
		r.Password = password
	}
	if number := strings.Trim(u.Path, "/"); number != "" && r.DB == 0 {
		if r.DB, err = strconv.Atoi(number); err != nil {
			return fmt.Errorf("the database %q must be a number", number)
		}
	}
	return nil
}

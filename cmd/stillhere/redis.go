package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/keys"
)

// redisFlags say where Redis is and who we are there.
type redisFlags struct {
	Redis            []string `help:"Address of Redis, host:port or a redis:// or rediss:// URL; with --redis-master the addresses of the Sentinels, with --redis-cluster those of some nodes." default:"127.0.0.1:6379" group:"Redis:"`
	RedisMaster      string   `help:"Master name at the Sentinels." group:"Redis:"`
	RedisCluster     bool     `help:"Connect to a Redis Cluster." group:"Redis:"`
	RedisUser        string   `help:"User for Redis." group:"Redis:"`
	RedisPassword    string   `help:"Password for --redis-user; better set in STILLHERE_REDIS_PASSWORD or a file." group:"Redis:" secret:""`
	RedisPassFile    string   `name:"redis-password-file" help:"File with the password, read again for every connection." group:"Redis:" type:"path"`
	SentinelUser     string   `name:"redis-sentinel-user" help:"User for the Sentinels." group:"Redis:"`
	SentinelPassword string   `name:"redis-sentinel-password" help:"Password for the Sentinels; better set in STILLHERE_REDIS_SENTINEL_PASSWORD." group:"Redis:" secret:""`
	RedisTLS         bool     `name:"redis-tls" help:"Connect to Redis, and to Sentinels, with TLS." group:"Redis:"`
	RedisTLSCA       string   `name:"redis-tls-ca" help:"File with the CA certificates to trust (PEM). Default: the system's." group:"Redis:" type:"path"`
	RedisTLSCert     string   `name:"redis-tls-cert" help:"File with this client's certificate (PEM)." group:"Redis:" type:"path"`
	RedisTLSKey      string   `name:"redis-tls-key" help:"File with this client's key (PEM)." group:"Redis:" type:"path"`
	RedisTLSName     string   `name:"redis-tls-server-name" help:"Name that the servers' certificates must have. Default: the host name." group:"Redis:"`
	RedisDatabase    int      `help:"Number of the Redis database." default:"0" group:"Redis:"`
	RedisPrefix      string   `help:"Prefix of keys and channels, so that pipelines can share a Redis. Default: derived from --topic-prefix (presence: for presence.)." group:"Redis:"`
	RedisPoolSize    int      `help:"Connections to each server, separately for reads and writes; 0: ten per core." default:"0" group:"Redis:"`
}

// redis is what the flags say. The error names every flag that is wrong.
func (f redisFlags) redis() (app.Redis, error) {
	var c check
	for _, given := range f.Redis {
		if strings.Contains(given, "://") {
			c.that(len(f.Redis) == 1, "--redis: a URL names one server; give several as host:port")
			c.err("--redis", f.fromURL(given))
		}
	}
	password := keys.Secret{Value: f.RedisPassword, File: f.RedisPassFile}
	c.that(password.Value == "" || password.File == "", "--redis-password and --redis-password-file exclude each other")
	c.that(f.RedisTLS || f.RedisTLSCA+f.RedisTLSCert+f.RedisTLSKey+f.RedisTLSName == "", "--redis-tls-ca, -cert, -key and -server-name need --redis-tls")
	c.that((f.RedisTLSCert == "") == (f.RedisTLSKey == ""), "--redis-tls-cert and --redis-tls-key go together")
	c.that(f.RedisMaster != "" || f.SentinelUser+f.SentinelPassword == "", "--redis-sentinel-user and -password need --redis-master")
	if _, err := password.Read(); err != nil {
		c.err("--redis-password-file", err)
	}
	files := keys.TLS{CA: f.RedisTLSCA, Cert: f.RedisTLSCert, Key: f.RedisTLSKey, ServerName: f.RedisTLSName}
	if f.RedisTLS && len(c.faults) == 0 {
		c.err("--redis-tls", files.Check())
	}
	r := app.Redis{
		Addrs: f.Redis, Master: f.RedisMaster, Cluster: f.RedisCluster, DB: f.RedisDatabase, PoolSize: f.RedisPoolSize, Prefix: f.RedisPrefix,
		SentinelUsername: f.SentinelUser, SentinelPassword: f.SentinelPassword,
	}
	if f.RedisUser != "" || password.Given() {
		user := f.RedisUser
		r.Credentials = func(context.Context) (string, string, error) {
			text, err := password.Read()
			return user, text, err
		}
	}
	if f.RedisTLS {
		r.Dialer = files.Dialer(nil)
	}
	return r, c.join()
}

// fromURL takes what a URL says; flags go before it.
func (f *redisFlags) fromURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return fmt.Errorf("must be redis://[user:password@]host:port[/database] or rediss://…") // the text may have a password
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	f.Redis = []string{net.JoinHostPort(u.Hostname(), port)}
	f.RedisTLS = f.RedisTLS || u.Scheme == "rediss"
	if f.RedisUser == "" {
		f.RedisUser = u.User.Username()
	}
	if password, given := u.User.Password(); given && f.RedisPassword == "" && f.RedisPassFile == "" {
		f.RedisPassword = password
	}
	if number := strings.Trim(u.Path, "/"); number != "" && f.RedisDatabase == 0 {
		if f.RedisDatabase, err = strconv.Atoi(number); err != nil {
			return fmt.Errorf("the database %q must be a number", number)
		}
	}
	return nil
}

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
)

// Config is the configuration of a process of any role. Start from
// Defaults.
type Config struct {
	// Instance is the stable name of this process: the same after a restart, and
	// of no other process of its role.
	Instance string
	// Version is the program's, for metrics.
	Version string
	// Listen is the address for clients, host:port; Admin the one for operators: health,
	// metrics, profiles. Empty Admin: nowhere.
	Listen, Admin string
	// AdminPort says what the admin port shows, and to whom.
	AdminPort Admin
	// AllowedHosts are the hosts, besides Listen, Admin and the loopback, that requests
	// may be for where no token identifies the caller: on the admin port, and, without
	// authentication, on Listen.
	AllowedHosts []string
	// AllowUnauthenticated allows Listen on other addresses than the loopback without
	// authentication.
	AllowUnauthenticated bool
	// AllowedOrigins are the web origins, besides the server's own, whose pages may use
	// the API: scheme://host, in which * stands for anything, as in
	// https://*.example.com (path.Match).
	AllowedOrigins []string
	// MaxConnections [0] is how many client connections may be open; 0: as many as
	// the process's descriptors allow. The admin port has a bound of its own.
	MaxConnections int
	// MaxPerAddress [0] is how many client connections one address (of IPv6, one
	// network of 64 bits) may have open; 0: any number, as it has to be behind a proxy.
	MaxPerAddress int
	// MaxPerUser [20] is how many sockets and streams one user may have open in this
	// process, all together; 0: any number.
	MaxPerUser int
	// TrustedProxies are the addresses and networks whose X-Forwarded-For is believed.
	// MaxPerAddress then bounds the clients behind them, and not themselves.
	TrustedProxies []string
	// Page serves the page that shows online users at the root path.
	Page bool
	// Listener replaces the network for Listen and Admin, e.g. in virtual time.
	Listener func(network, address string) (net.Listener, error)

	Kafka kafka.Config
	// TopicsEvery [1m] is how often a process that runs looks whether the topics are
	// still as they must be.
	TopicsEvery time.Duration
	// SchemaRegistry is the URL of a Schema Registry whose heads go before the values
	// on topics that others read; empty: none. Its schemas have been registered.
	SchemaRegistry string

	Redis Redis
	Store Store
	// Postgres limits what is asked of the server that Store names.
	Postgres pgstore.Config

	// Auth says which tokens are accepted; the zero value has no authentication.
	Auth auth.Config

	// Policy is that of a new pipeline; of another the one in force counts. PolicyAsked are
	// the settings that somebody asked for: a process refuses to start where they differ
	// from the policy in force.
	Policy      liveness.Settings
	PolicyAsked policy.Change

	Ingest   ingest.Config
	Lastseen lastseen.Config
	Fanout   fanout.Config
	Expand   expand.Config
	// MayWatch says who may see whom, by every way out: WatchEveryone, or WatchFollowers
	// for those who follow a user, the user and administrators. The zero value is the first.
	MayWatch string
	// MayReadHistory says who may read the history of a user: HistorySelf for the user and
	// administrators, or HistoryWatchers for whoever may watch the user. The zero value is
	// the first. Without authentication and WatchFollowers nobody is told apart.
	MayReadHistory string
	// HiddenOffline has a hidden user look like one who went offline when it hid, in place
	// of null.
	HiddenOffline bool
	// Graph says where it is kept who follows whom; needed unless Expand.Mode is off,
	// and by WatchFollowers.
	Graph Store
}

// Redis says where Redis is: one server (Addr), the Sentinels that know it (Addrs
// and Master), or some nodes of a cluster (Addrs and Cluster).
type Redis struct {
	Addr     string
	Addrs    []string
	Master   string
	Cluster  bool
	Username string
	Password string
	// Credentials is asked for user and password before each connection, in place of
	// the fields; SentinelUsername and SentinelPassword are those of the Sentinels.
	Credentials                        func(ctx context.Context) (username, password string, err error)
	SentinelUsername, SentinelPassword string
	DB                                 int
	PoolSize                           int // connections per server; 0: ten per core
	TLS                                *tls.Config
	// Prefix begins all keys and channels; empty: that of the topics, presence: for presence.
	Prefix string
	// Dialer replaces the network, e.g. in virtual time.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Store says where last seen and the log of changes are kept: one of the two.
type Store struct {
	Postgres string // URL
	SQLite   string // file
}

// Defaults are the settings of the design for a process named after its machine.
func Defaults() Config {
	host, err := os.Hostname()
	if err != nil {
		host = "stillhere"
	}
	return Config{
		Instance: host,
		Listen:   "127.0.0.1:8080",
		Admin:    "127.0.0.1:9090",

		MaxPerUser: 20,

		Kafka: kafka.Config{Prefix: schemas.DefaultPrefix},

		TopicsEvery: time.Minute,

		Postgres: pgstore.Defaults(),
		Auth:     auth.Defaults(),
		Policy:   liveness.Defaults(),
		Ingest:   ingest.Defaults(),
		Lastseen: lastseen.Defaults(),
		Fanout:   fanout.DefaultConfig(),
		Expand:   expand.Defaults(),
	}
}

// settle copies what several services must agree on into their settings.
func (c *Config) settle(partitions int32) {
	c.Kafka.InstanceName = c.Instance
	c.Redis = c.Redis.named(c.Kafka)
	// How long a frame may be under way bounds how wrong the ages in it can be.
	c.Kafka.DeliveryTimeout = c.Ingest.AppendTimeout
	c.Ingest.Partitions = partitions
	c.Ingest.GatewayID = schemas.GatewayID("ingest-" + c.Instance)
	c.Ingest.HeartbeatInterval = c.Policy.HeartbeatInterval
	c.Ingest.HTTP.MaxDevices = c.Policy.MaxDevices
	// Shorter, and the detector would count a gateway as lost in a partition whose
	// last device is merely silent.
	c.Ingest.ForgetAfter = max(time.Minute, c.Policy.OnlineTTL+c.Policy.OfflineDebounce, 4*c.Policy.HeartbeatInterval)
	c.Ingest.Sockets.IdleTimeout = max(c.Policy.OnlineTTL+c.Policy.OfflineDebounce, 2*c.Policy.HeartbeatInterval)
	c.Ingest.AllowedOrigins, c.Fanout.Origins = c.AllowedOrigins, c.AllowedOrigins
	c.Fanout.HiddenOffline, c.Lastseen.HiddenOffline, c.Expand.HiddenOffline = c.HiddenOffline, c.HiddenOffline, c.HiddenOffline
	c.Fanout.HeartbeatInterval = c.Policy.HeartbeatInterval
	c.Ingest.Sockets.MaxSubscriptions = c.Fanout.MaxSubscriptions
}

// instanceName is what Kafka takes as a group instance id and transactional id.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// Check reports everything that is wrong with the settings of a role, joined, as
// Run does before it starts anything.
func Check(name string, config Config) error {
	i := slices.IndexFunc(Roles, func(r Role) bool { return r.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no role %q", name)
	}
	return config.validate(Roles[i])
}

// validate reports everything that is wrong with the settings a role needs.
func (c Config) validate(r Role) error {
	var faults []error
	add := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if !instanceName.MatchString(c.Instance) {
		add(fmt.Errorf("instance: %q must be 1 to 100 letters, digits, dots, dashes or underscores", c.Instance))
	}
	add(c.Policy.Validate())
	add(c.AdminPort.check(c.Admin))
	add(validateHosts(c.AllowedHosts))
	if r.http {
		add(validateListen(c.Listen, c.AllowUnauthenticated || c.Auth.On()))
		add(c.Auth.Validate())
		add(c.checkSecret())
		add(c.checkWeb())
	}
	if r.redis {
		add(c.Redis.validate())
	}
	if r.store {
		add(c.Store.validate())
	}
	if r.Name == "fanout" || r.Name == "all" {
		add(c.Expand.Validate())
		if c.followers() {
			add(c.Graph.validate())
		}
	}
	if r.http && c.MayWatch == WatchFollowers {
		add(c.Graph.validate())
	}
	if r.http && !slices.Contains([]string{"", WatchEveryone, WatchFollowers}, c.MayWatch) {
		add(fmt.Errorf("may_watch: must be %s or %s, is %q", WatchEveryone, WatchFollowers, c.MayWatch))
	}
	if r.http && !slices.Contains([]string{"", HistorySelf, HistoryWatchers}, c.MayReadHistory) {
		add(fmt.Errorf("may_read_history: must be %s or %s, is %q", HistorySelf, HistoryWatchers, c.MayReadHistory))
	}
	if r.store && c.Store.Postgres != "" {
		add(c.postgres().Validate())
	}
	add(c.Kafka.Validate())
	return errors.Join(faults...)
}

// watches reports whether sockets of the role ingest can watch users.
func (c Config) watches() bool { return c.Redis.given() && c.Store != (Store{}) }

// followers reports whether followers receive deliveries.
func (c Config) followers() bool { return c.Expand.Mode != expand.Off }

// given reports whether a Redis is configured.
func (r Redis) given() bool { return r.Addr != "" || len(r.Addrs) > 0 || r.Dialer != nil }

func (r Redis) addrs() []string {
	if len(r.Addrs) > 0 {
		return r.Addrs
	}
	return []string{r.Addr}
}

func (r Redis) validate() error {
	var faults []error
	if !r.given() {
		faults = append(faults, errors.New("redis: an address is needed, e.g. 127.0.0.1:6379"))
	}
	if r.Cluster && r.Master != "" {
		faults = append(faults, errors.New("redis_cluster, redis_master: a cluster has no Sentinels; say one of the two"))
	}
	if r.Cluster && r.DB != 0 {
		faults = append(faults, fmt.Errorf("redis_database: a cluster has only database 0, is %d", r.DB))
	}
	if len(r.Addrs) > 1 && !r.Cluster && r.Master == "" {
		faults = append(faults, errors.New("redis: several addresses are those of a cluster or of Sentinels; say redis_cluster or redis_master"))
	}
	faults = append(faults, checkRedisPrefix(r.Prefix))
	if r.PoolSize < 0 {
		faults = append(faults, fmt.Errorf("redis_pool_size: must not be negative, is %d", r.PoolSize))
	}
	for _, a := range r.addrs() {
		if _, _, err := net.SplitHostPort(a); err != nil && r.given() && r.Dialer == nil {
			faults = append(faults, fmt.Errorf("redis: %q must be host:port", a))
		}
	}
	return errors.Join(faults...)
}

func (c *Config) postgres() pgstore.Config {
	p := c.Postgres
	p.URL, p.AuditRetention = c.Store.Postgres, c.Lastseen.AuditRetention
	return p
}

func (s Store) validate() error {
	switch {
	case s.Postgres == "" && s.SQLite == "":
		return errors.New("postgres: a URL is needed, e.g. postgres://user@localhost:5432/stillhere")
	case s.Postgres != "" && s.SQLite != "":
		return errors.New("postgres, sqlite: only one of the two can keep the log of changes")
	}
	return nil
}

// dataDir makes the folder that the embedded servers keep their data in, and
// makes sure that it can be written.
func dataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("data directory %s cannot be written: %w", filepath.Clean(dir), err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return err
	}
	// It has everybody's presence and, with who follows whom, more; one of an older version
	// was open to all.
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs x
		return fmt.Errorf("data directory: closing it to other users: %w", err)
	}
	return nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/faults"
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
	// Version is the program's, for metrics; Commit is what it was built from, for the log.
	Version, Commit string
	HTTP
	// ConsoleAtRoot leads from the root path to the web console.
	ConsoleAtRoot bool
	// Console makes the web console of a process that answers reads; nil: it serves none.
	Console func(ConsoleParts) (Console, error)
	// Reload, if not nil, runs until ctx ends and passes changed settings to apply; see Reloadable. An
	// error of apply means that nothing has changed.
	Reload func(ctx context.Context, registry prometheus.Registerer, log *slog.Logger, apply func(Config) error) error
	// Listener replaces the network for Listen and Admin, e.g. in virtual time.
	Listener func(network, address string) (net.Listener, error)

	Kafka Kafka
	// TopicsEvery [1m] is the time between two checks of the topics' configuration.
	TopicsEvery time.Duration
	// SchemaRegistry is the URL of a Schema Registry whose heads go before the values
	// on topics that others read; empty: none. Its schemas have been registered.
	SchemaRegistry string

	Redis Redis
	Store Store
	// Postgres limits what is asked of the server that Store names.
	Postgres pgstore.Config

	Auth Auth

	// Policy is the policy of a new pipeline. An older one has a policy in force, which
	// counts. PolicyAsked names the settings of Policy that the operator gave, such as
	// online_ttl: a process refuses to start if they differ from the policy in force.
	Policy      liveness.Settings
	PolicyAsked []string
	// Tenants are the policies of tenants that have their own. Roles read them when they start, and
	// follow them.
	Tenants map[string]*schemas.Policy
	// TenantQuotas bound tenants with a name that no record bounds or frees.
	TenantQuotas schemas.TenantQuotas

	// Retention is that of the topics: dev applies it, other processes check it against Policy.
	Retention schemas.Retention
	// SeenInterval [1m] is the time in which the newest heartbeat of every present user is
	// published once; 0: never.
	SeenInterval time.Duration
	// MinLogEpoch [1] is the least log epoch that a detector begins whose commit is lost; see detector.Config.
	MinLogEpoch uint32

	Ingest   ingest.Config
	Lastseen lastseen.Config
	Fanout   fanout.Config
	Expand   expand.Config
	// MayWatch says who may see a user in reads, streams and deliveries: WatchEveryone, or
	// WatchFollowers for the user's followers, the user and administrators. The zero value is
	// WatchEveryone.
	MayWatch string
	// MayReadHistory says who may read the history of a user: HistorySelf for the user and
	// administrators, or HistoryWatchers for everyone who may watch the user. The zero value
	// is HistorySelf. Without authentication and WatchFollowers everyone may.
	MayReadHistory string
	// HiddenOffline shows a hidden user as one who went offline at the hide, in place of null.
	HiddenOffline bool
	// Graph says where the follower graph is. WatchFollowers and GraphTopic need it, and Expand
	// unless its Mode is off. With it the role api serves the graph's endpoints.
	Graph Store
	// GraphTopic makes fan-out apply presence.graph to the follower graph.
	GraphTopic bool
}

// Store says where last seen and the log of changes are stored: one of the two.
type Store struct {
	Postgres string // URL
	SQLite   string // file
}

// Defaults returns the default settings of a process that is named after its machine.
func Defaults() Config {
	host, err := os.Hostname()
	if err != nil {
		host = "stillhere"
	}
	return Config{
		Instance: host,
		HTTP: HTTP{
			Listen: "127.0.0.1:8080", AdminServer: AdminServer{Admin: "127.0.0.1:9090"},
			MaxStreams: fanout.DefaultConfig().MaxConnections, MaxSubscriptions: fanout.DefaultConfig().MaxSubscriptions,
			MaxPerUser: 20,
		},

		Kafka: Kafka{Prefix: schemas.DefaultPrefix},

		TopicsEvery: time.Minute,

		Postgres: pgstore.Defaults(),
		Auth:     Auth{Leeway: 10 * time.Second, Requests: 20, Connects: 60},
		Policy:   liveness.Defaults(),

		SeenInterval: time.Minute,
		MinLogEpoch:  1,

		Ingest:   ingest.Defaults(),
		Lastseen: lastseen.Defaults(),
		Fanout:   fanout.DefaultConfig(),
		Expand:   expand.Defaults(),
	}
}

// settle copies what several services must agree on into their settings.
func (c *Config) settle(partitions int32) {
	c.Ingest.Partitions, c.Ingest.GatewayID = partitions, schemas.GatewayID("ingest-"+c.Instance)
	i := &c.Ingest
	i.HeartbeatInterval, i.ForgetAfter, i.NameAfter, i.ActiveAfterIdle, i.ReportAgainAfter = 0, 0, 0, 0, 0
	c.Ingest.Config = c.Ingest.Under(c.Policy, c.Tenants)
	c.Ingest.HTTP.MaxDevices, c.Ingest.HTTP.PolicyOf = c.Policy.MaxDevices, c.policyOf
	c.Ingest.Sockets.HeartbeatJitter = c.Policy.HeartbeatJitter
	c.Ingest.Sockets.IdleTimeout = idleTimeout(c.Policy)
	c.Ingest.Sockets.Tenants = map[string]ingest.Pace{}
	for tenant, p := range c.Tenants {
		own := c.Policy.For(p)
		c.Ingest.Sockets.Tenants[tenant] = ingest.Pace{Schedule: own.Schedule(), IdleTimeout: idleTimeout(own)}
	}
	c.Ingest.AllowedOrigins, c.Fanout.Origins = c.AllowedOrigins, c.AllowedOrigins
	c.Fanout.MaxConnections = c.MaxStreams
	c.Fanout.HiddenOffline, c.Lastseen.HiddenOffline, c.Expand.HiddenOffline = c.HiddenOffline, c.HiddenOffline, c.HiddenOffline
	c.Fanout.HeartbeatInterval, c.Fanout.HeartbeatJitter = c.Policy.HeartbeatInterval, c.Policy.HeartbeatJitter
	c.Fanout.TenantSchedules = c.schedules()
	c.Fanout.AllowSubscriptions(c.MaxSubscriptions)
	c.Ingest.Sockets.MaxSubscriptions = c.MaxSubscriptions
	c.Ingest.Sockets.MaxMessage = max(c.Ingest.Sockets.MaxMessage, int(fanout.RequestBytes(c.MaxSubscriptions)))
}

// policyOf is the policy of a tenant's users.
func (c Config) policyOf(tenant string) schemas.Policy { return c.Policy.For(c.Tenants[tenant]) }

// idleTimeout is after what silence sockets are closed by a policy.
func idleTimeout(p schemas.Policy) time.Duration {
	return max(p.OnlineTTL+p.OfflineDebounce, 2*p.HeartbeatInterval)
}

// schedules are those of the tenants with policies of their own.
func (c *Config) schedules() map[string]schemas.Schedule {
	all := map[string]schemas.Schedule{}
	for tenant, p := range c.Tenants {
		all[tenant] = c.Policy.For(p).Schedule()
	}
	return all
}

// maxSeenInterval keeps a row in Redis until the next one of its user is written.
const maxSeenInterval = 5 * time.Minute

// instanceName is what Kafka takes as a group instance id and transactional id.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// Check reports everything that is wrong with the settings of a role, joined, as
// Run does before it starts anything.
func Check(name string, config Config) error {
	role, err := roleOf(name)
	if err != nil {
		return err
	}
	return config.validate(role)
}

// validate reports everything that is wrong with the settings that a role needs, joined.
func (c Config) validate(r Role) error {
	var all faults.List
	all.If(!instanceName.MatchString(c.Instance),
		"instance: %q must be 1 to 100 letters, digits, dots, dashes or underscores", c.Instance)
	all.If(c.SeenInterval != 0 && (c.SeenInterval < time.Second || c.SeenInterval > maxSeenInterval),
		"seen_interval: must be 0 or between 1s and %s, is %s", maxSeenInterval, c.SeenInterval)
	const most = detector.MaxLogEpoch - 100 // others begin after it
	all.If(c.MinLogEpoch > most, "min_log_epoch: must be at most %d, is %d", most, c.MinLogEpoch)
	all.Add(c.Policy.Validate(), c.AdminServer.validate(), c.Retention.Validate(), c.Lastseen.Validate())
	if r.http {
		all.Add(c.HTTP.validate(c.Auth.On()), c.Auth.validate(c.Listen), validateAccess(c.MayWatch, c.MayReadHistory))
	}
	if r.redis || c.Redis.given() {
		_, err := c.Redis.options(c.Kafka.Prefix)
		all.Add(err)
	}
	if r.store {
		all.Add(c.Store.validate())
	}
	fanout := r.Name == "fanout" || r.Name == "all"
	if fanout {
		all.Add(c.Expand.Validate())
	}
	if fanout && (c.followers() || c.GraphTopic) || r.http && c.MayWatch == WatchFollowers {
		all.Add(c.Graph.validate())
	}
	if r.store && c.Store.Postgres != "" {
		all.Add(c.postgres().Validate())
	}
	cluster, err := c.Kafka.cluster()
	all.Add(err, cluster.Validate(), c.validateSigned(r))
	return all.Err()
}

// unsigned is what follows where heartbeats are not signed.
const unsigned = "heartbeats are not signed, so every client with Write on their topic can hide, erase and log out all users"

// validateSigned refuses unsigned heartbeats where callers are authenticated and other machines can reach Kafka. A
// detector has no callers: only AllowUnauthenticated says of it that nobody is authenticated.
func (c Config) validateSigned(r Role) error {
	authenticated := c.Auth.On() || !r.http && !c.AllowUnauthenticated
	if !r.signs || c.Kafka.FrameKeys != "" || !authenticated || c.Kafka.onLoopback() {
		return nil
	}
	fault := "frame_keys: is needed: " + unsigned + "; make the file with: stillhere keys master > frame.keys"
	if !r.http {
		fault += "; if callers are not authenticated, set --allow-unauthenticated"
	}
	return errors.New(fault)
}

// DescribeSigning says in a line whether a role signs heartbeats, and requires signed ones; "": it has none.
func DescribeSigning(name string, c Config) string {
	role, unknown := roleOf(name)
	cluster, err := c.Kafka.cluster()
	switch {
	case unknown != nil || !role.signs || err != nil:
		return ""
	case cluster.Keys != nil:
		return "heartbeats are signed, and unsigned ones refused; masters: " + cluster.Keys.Fingerprints()
	case c.unsignedRisk(role):
		return unsigned + "; set --frame-keys"
	}
	return "heartbeats are not signed, and detectors take them from any producer"
}

// unsignedRisk reports whether the operator should know that heartbeats are not signed.
func (c Config) unsignedRisk(r Role) bool {
	return r.signs && c.Kafka.FrameKeys == "" && (c.Auth.On() || !c.Kafka.onLoopback())
}

// watches reports whether sockets of the role ingest can watch users.
func (c Config) watches() bool { return c.Redis.given() && c.Store != (Store{}) }

// followers reports whether followers receive deliveries.
func (c Config) followers() bool { return c.Expand.Mode != expand.Off }

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
	// The directory has the presence of all users and the follower graph. One that was there may be readable for
	// other users of the machine.
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs x
		return fmt.Errorf("data directory: closing it to other users: %w", err)
	}
	return nil
}

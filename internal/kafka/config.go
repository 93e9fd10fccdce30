package kafka

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// Config configures all Kafka clients of a process. The zero value of a duration or a bound means
// the default in brackets.
type Config struct {
	// Brokers are bootstrap addresses, host:port. At least one.
	Brokers []string
	// Prefix begins every topic's name [presence.]. It distinguishes groups too.
	Prefix string
	// Users are those of the pipeline: the zero value is --ids int.
	Users identity.Users
	// Retention is that of topics that are created. Topics that exist get what it sets.
	Retention schemas.Retention
	// ClientID is the name of this client in the brokers' logs and quotas [stillhere].
	ClientID string
	// InstanceName is this process's stable name, required in groups. With the group's name it
	// forms the group instance id and the transactional id, so that a restarted process gets its
	// partitions back at once and fences its predecessor. No two processes of a role may share it:
	// the younger one ends.
	InstanceName string
	// Version is the program's; observers of the groups see it.
	Version string
	// Security is TLS and SASL; nil for plain text.
	Security *Security
	// ValueHeaders precede the values written to these topics, except tombstones, as clients of a
	// Schema Registry expect. All readers of the pipeline accept values with and without.
	ValueHeaders map[schemas.Topic][]byte
	// Keys sign the frames of the Producer; nil: they are not signed.
	Keys *signing.Keys
	// Dialer replaces the standard dialer, e.g. for proxies and virtual networks. It excludes
	// Security.TLS.
	Dialer func(ctx context.Context, network, host string) (net.Conn, error)

	// TickInterval is how often the owner of a partition appends a tick where something is due [250ms]. A detector
	// needs less than 5 s; see *unowned* in detector/DESIGN.md.
	TickInterval time.Duration
	// CommitInterval is the least time between the starts of two publishing commits [10ms]. They are up to twice as
	// far apart where one takes more than half of it; half of it lies between the end of one and the start of the next.
	CommitInterval time.Duration
	// IdleCommitInterval bounds how long consumed offsets wait while there is nothing to publish
	// [1s].
	IdleCommitInterval time.Duration
	// WatermarkInterval is how often a consumer looks up the progress of the group before it [1s].
	WatermarkInterval time.Duration

	// SessionTimeout is how long the group waits for a silent member [6s]. It is also the
	// transaction timeout, so that a dead member's transaction has ended when its successor
	// starts. Members send a heartbeat every twelfth of it.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long members may take to release partitions [10s].
	RebalanceTimeout time.Duration
	// StallTimeout is how long a partition may make no progress before the session restarts [15s].
	StallTimeout time.Duration
	// DeliveryTimeout is how long the Producer tries to deliver a record [10s].
	DeliveryTimeout time.Duration
	// StopTimeout bounds the last commit at shutdown [10s].
	StopTimeout time.Duration

	// MaxBuffered bounds the unacknowledged records of the Producer, which refuses more [20,000];
	// MaxBufferedBytes bounds their bytes [256 MiB].
	MaxBuffered      int
	MaxBufferedBytes int
	// MaxPollRecords is how many records a consumer, and a task that takes batches, get at a time [1,000].
	MaxPollRecords int
	// MaxTransactionRecords and MaxTransactionBytes bound one transaction [20,000 and 16 MiB]: the
	// loop commits it at that size, between two records or two slices of one. With slow brokers
	// it writes less at once.
	MaxTransactionRecords int
	MaxTransactionBytes   int
	// MaxBatchBytes bounds the decompressed size of a batch [64 MiB]; readers skip and log larger
	// ones.
	MaxBatchBytes int
	// MaxFailures is the number of failures at one record that parks its partition [3].
	MaxFailures int

	Stamp ProcessStamp // replaces the process's own; for tests of two processes in one
}

// WithDefaults returns c with the defaults for zero values.
func (c Config) WithDefaults() Config {
	set(&c.Prefix, schemas.DefaultPrefix)
	set(&c.ClientID, "stillhere")
	set(&c.TickInterval, 250*time.Millisecond)
	set(&c.CommitInterval, 10*time.Millisecond)
	set(&c.IdleCommitInterval, time.Second)
	set(&c.WatermarkInterval, time.Second)
	set(&c.SessionTimeout, 6*time.Second)
	set(&c.RebalanceTimeout, 10*time.Second)
	set(&c.StallTimeout, 15*time.Second)
	set(&c.DeliveryTimeout, 10*time.Second)
	set(&c.StopTimeout, 10*time.Second)
	set(&c.MaxBuffered, 20_000)
	set(&c.MaxBufferedBytes, 256<<20)
	set(&c.MaxPollRecords, 1000)
	set(&c.MaxTransactionRecords, 20_000)
	set(&c.MaxTransactionBytes, 16<<20)
	set(&c.MaxBatchBytes, 64<<20)
	set(&c.MaxFailures, 3)
	return c
}

// GroupName is a group's name in Kafka. Pipelines with different prefixes on one cluster have
// different groups, and so different transactional ids.
func (c Config) GroupName(group string) string {
	if c.Prefix == "" || c.Prefix == schemas.DefaultPrefix {
		return group
	}
	return group + "@" + strings.TrimRight(c.Prefix, ".")
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// topicName matches what Kafka accepts in names of topics; the length leaves space for the rest
// of the name.
var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{0,200}$`)

// Validate reports all faults, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var all faults.List
	all.If(len(c.Brokers) == 0, "brokers: at least one address is needed, e.g. localhost:9092")
	for _, b := range c.Brokers {
		_, _, err := net.SplitHostPort(b)
		all.If(err != nil, "brokers: %q must be host:port", b)
	}
	all.If(!topicName.MatchString(c.Prefix),
		"topic prefix: %q must be letters, digits, dots, dashes or underscores, at most 200", c.Prefix)
	for name, d := range map[string]time.Duration{
		"tick interval": c.TickInterval, "commit interval": c.CommitInterval, "idle commit interval": c.IdleCommitInterval,
		"watermark interval": c.WatermarkInterval, "session timeout": c.SessionTimeout,
		"rebalance timeout": c.RebalanceTimeout,
		"stall timeout":     c.StallTimeout, "delivery timeout": c.DeliveryTimeout, "stop timeout": c.StopTimeout,
	} {
		all.If(d < 0, "%s: must be positive, is %s", name, d)
	}
	all.If(c.StallTimeout <= 2*c.TickInterval, "stall timeout: %s must be well above the tick interval %s",
		c.StallTimeout, c.TickInterval)
	all.If(c.RebalanceTimeout < c.IdleCommitInterval,
		"rebalance timeout: %s must not be below the idle commit interval %s", c.RebalanceTimeout, c.IdleCommitInterval)
	all.If(c.MaxBuffered < 1 || c.MaxPollRecords < 1 || c.MaxBufferedBytes < 1 || c.MaxBatchBytes < 1 ||
		c.MaxFailures < 1 ||
		c.MaxTransactionRecords < 1 || c.MaxTransactionBytes < 1, "bounds must be positive")
	all.Add(c.Security.validate())
	all.If(c.Security != nil && c.Security.TLS != nil && c.Dialer != nil,
		"security: TLS and a dialer of one's own exclude each other")
	return all.Err()
}

// ValidateMember is Validate for a member of a group.
func (c Config) ValidateMember() error {
	if c.InstanceName == "" {
		return errors.Join(c.Validate(), errors.New("instance name: a stable name for this process is needed"))
	}
	return c.Validate()
}

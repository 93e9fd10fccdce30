package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Config says how to reach Kafka and how quickly things must happen. The zero
// value of a duration or a bound stands for the default in brackets.
type Config struct {
	// Brokers are bootstrap addresses, host:port. At least one.
	Brokers []string
	// Prefix is put before every topic's name [presence.]. Groups are told apart by
	// it too.
	Prefix string
	// ClientID is what brokers log and count by [stillhere].
	ClientID string
	// InstanceName is this process's stable name. With the group's name it makes
	// the group instance id and the transactional id, so that a restarted process
	// takes up its partitions at once and fences the one it replaces. No two
	// processes of a role may share it: the younger one ends. Needed by Transform and
	// Follower.
	InstanceName string
	// Security is TLS and SASL; nil for plain text.
	Security *Security
	// ValueHeaders go before the values that are written to these topics, and not before
	// tombstones: what clients of a Schema Registry expect there. All our readers take
	// values with and without.
	ValueHeaders map[schemas.Topic][]byte
	// Dialer opens connections in place of the standard dialer: proxies, virtual
	// networks. It cannot be combined with Security.TLS.
	Dialer func(ctx context.Context, network, host string) (net.Conn, error)

	// TickInterval is how often the owner of a partition appends a tick [250ms].
	TickInterval time.Duration
	// CommitInterval is the least time from one commit that publishes something to
	// the next, begin to begin [20ms]. A quarter of it at least is between the end of
	// one and the next.
	CommitInterval time.Duration
	// IdleCommitInterval is the longest time that consumed offsets wait when there
	// is nothing to publish [1s].
	IdleCommitInterval time.Duration
	// WatermarkInterval is how often a follower looks how far the group before it
	// has come [1s].
	WatermarkInterval time.Duration

	// SessionTimeout is how long the group waits for a silent member [6s]. It is
	// also the transaction timeout: what a dead member left open is gone when its
	// successor needs it gone. Members send a heartbeat every twelfth of it.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long members may take to give up partitions [10s].
	RebalanceTimeout time.Duration
	// StallTimeout is how long a partition may make no progress before the
	// session is started anew [15s].
	StallTimeout time.Duration
	// DeliveryTimeout is how long Producer tries to deliver a record [10s].
	DeliveryTimeout time.Duration
	// StopTimeout bounds finishing and committing what is in hand at shutdown [10s].
	StopTimeout time.Duration

	// MaxBuffered is how many records Producer holds that are not acknowledged
	// yet; one more is refused [20,000]. Their bytes are bounded as well [256 MiB].
	MaxBuffered      int
	MaxBufferedBytes int
	// MaxPollRecords is how many records the loop takes at a time [1,000].
	MaxPollRecords int
	// MaxTransactionRecords and MaxTransactionBytes bound what is written in one
	// transaction [20,000 and 16 MiB]: it is committed once it holds as much, between
	// two records or two slices of one. Slow brokers make the loop write less at once.
	MaxTransactionRecords int
	MaxTransactionBytes   int
	// MaxBatchBytes is the greatest size a batch may decompress to [64 MiB];
	// greater ones are skipped, loudly.
	MaxBatchBytes int
	// MaxFailures is how many failures at one record park its partition [3].
	MaxFailures int

	Stamp ProcessStamp // in place of the process's own; for tests of two processes in one
}

// WithDefaults fills in what was left out.
func (c Config) WithDefaults() Config {
	set(&c.Prefix, schemas.DefaultPrefix)
	set(&c.ClientID, "stillhere")
	set(&c.TickInterval, 250*time.Millisecond)
	set(&c.CommitInterval, 20*time.Millisecond)
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

// GroupName is what Kafka knows a group by. Pipelines with different prefixes on
// one cluster have different groups, and so different transactional ids.
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

// topicName is what Kafka takes in the names of topics; the length leaves room for what
// follows a prefix.
var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{0,200}$`)

// Validate reports everything that is wrong with c, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(len(c.Brokers) == 0, "brokers: at least one address is needed, e.g. localhost:9092")
	for _, b := range c.Brokers {
		_, _, err := net.SplitHostPort(b)
		fault(err != nil, "brokers: %q must be host:port", b)
	}
	fault(!topicName.MatchString(c.Prefix), "topic prefix: %q must be letters, digits, dots, dashes or underscores, at most 200", c.Prefix)
	for name, d := range map[string]time.Duration{
		"tick interval": c.TickInterval, "commit interval": c.CommitInterval, "idle commit interval": c.IdleCommitInterval,
		"watermark interval": c.WatermarkInterval, "session timeout": c.SessionTimeout, "rebalance timeout": c.RebalanceTimeout,
		"stall timeout": c.StallTimeout, "delivery timeout": c.DeliveryTimeout, "stop timeout": c.StopTimeout,
	} {
		fault(d < 0, "%s: must be positive, is %s", name, d)
	}
	fault(c.StallTimeout <= 2*c.TickInterval, "stall timeout: %s must be well above the tick interval %s", c.StallTimeout, c.TickInterval)
	fault(c.RebalanceTimeout < c.IdleCommitInterval, "rebalance timeout: %s must not be below the idle commit interval %s", c.RebalanceTimeout, c.IdleCommitInterval)
	fault(c.MaxBuffered < 1 || c.MaxPollRecords < 1 || c.MaxBufferedBytes < 1 || c.MaxBatchBytes < 1 || c.MaxFailures < 1 ||
		c.MaxTransactionRecords < 1 || c.MaxTransactionBytes < 1, "bounds must be positive")
	if err := c.Security.validate(); err != nil {
		faults = append(faults, err)
	}
	fault(c.Security != nil && c.Security.TLS != nil && c.Dialer != nil, "security: TLS and a dialer of one's own exclude each other")
	return errors.Join(faults...)
}

// ValidateMember is Validate for what joins a group.
func (c Config) ValidateMember() error {
	if c.InstanceName == "" {
		return errors.Join(c.Validate(), errors.New("instance name: a stable name for this process is needed"))
	}
	return c.Validate()
}

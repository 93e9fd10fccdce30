// Package deliveries runs a notification channel of your own: it reads presence.deliveries,
// where the service writes which followers are to be told of which change, and hands each
// delivery to a Channel.
//
//	err := deliveries.Run(ctx, deliveries.Config{
//		Kafka: client.Kafka{Brokers: brokers}, Name: "push", Instance: hostname,
//	}, myPush)
//
// # Promises
//
// A channel of your own has the promises of those that stillhere brings along. Processes
// with the same Name share the deliveries as a consumer group. Every delivery reaches the
// channel at least once, or the dead-letter topic after Config.Attempts. Deliveries of one
// user come in order and one at a time; those of different users at the same time. Of two
// versions of one user for one recipient the older is never handed over after the newer, and
// none twice, while the process lives; after a crash some come again, with the same ID. Of a
// hidden user nothing is delivered.
//
// A delivery that fails is tried again after a growing, jittered pause, and holds up what
// comes after it of the same user and nobody else. An offset is committed only when
// everything before it was delivered, withheld or written to the dead-letter topic.
package deliveries

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/internal/connect"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/schemas"
)

// Channel tells people.
type Channel interface {
	// Deliver tells the recipients of n. It is called from several goroutines, but for one
	// user from one at a time. After an error it is called again with the same n, or with
	// fewer recipients; Permanent says that this is pointless, After how long to wait. ctx
	// ends after Config.Timeout.
	Deliver(ctx context.Context, n schemas.Notice) error
}

// Func is a Channel that is one function.
type Func func(ctx context.Context, n schemas.Notice) error

// Deliver calls f.
func (f Func) Deliver(ctx context.Context, n schemas.Notice) error { return f(ctx, n) }

// Permanent marks an error that trying again cannot mend: the delivery is written to the
// dead-letter topic at once.
func Permanent(err error) error { return delivery.Permanent(err) }

// After marks an error after which the next attempt should wait that long, at most
// Config.MaxWait.
func After(wait time.Duration, err error) error { return delivery.After(wait, err) }

// Config says where Kafka is, which channel this is, and how deliveries are tried. Kafka,
// Name and Instance are needed.
type Config struct {
	Kafka client.Kafka
	// Name is the channel's, 1 to 100 letters, digits, dots, dashes or underscores. Its
	// consumer group is stillhere.channel.Name.
	Name string
	// Instance is the stable name of this process, of no other process of the channel; of
	// the same characters.
	Instance string
	// FromStart begins a new channel with what is kept of the last day, not with now.
	FromStart bool
	// Attempts is how often a delivery is tried before it becomes a dead letter [8].
	Attempts int
	// FirstWait is the pause before the second attempt [200ms]; it doubles up to MaxWait [30s].
	FirstWait, MaxWait time.Duration
	// Timeout bounds one attempt [10s].
	Timeout time.Duration
	// Concurrency is how many deliveries of a partition are under way at the same time [8],
	// besides as many that are tried again or take longer than a second.
	Concurrency int
	// Queue is how many deliveries of a partition may be in hand [1,000]. When it is full the
	// partition is not read on.
	Queue int
	// Rate is how many deliveries a second begin at most; 0: no bound.
	Rate float64
	// Remember is of how many pairs of recipient and user it is known what was delivered
	// last, so that nobody is told twice [1,000,000]; about 60 bytes each.
	Remember int
	// MaxAge leaves out deliveries that are older; 0: none.
	MaxAge time.Duration
	// HiddenOffline is for services that run with --shown-as offline: a hidden user is shown
	// as offline, so that one is offline may be delivered of a hidden user.
	HiddenOffline bool
	// Refused returns those of recipients, in their order, who may not see user now. It is
	// asked before each attempt; after an error it is asked again. nil: everybody may.
	Refused func(ctx context.Context, user schemas.UserID, recipients []schemas.UserID) ([]schemas.UserID, error)
	// Log is where the channel logs [slog.Default].
	Log *slog.Logger
	// Registry is where metrics are registered; nil: nowhere.
	Registry prometheus.Registerer
}

func (c Config) settings() delivery.Config {
	s := delivery.Defaults()
	set(&s.Attempts, c.Attempts)
	set(&s.FirstWait, c.FirstWait)
	set(&s.MaxWait, c.MaxWait)
	set(&s.Timeout, c.Timeout)
	set(&s.Concurrency, c.Concurrency)
	set(&s.Queue, c.Queue)
	set(&s.Remember, c.Remember)
	s.Rate, s.MaxAge, s.HiddenOffline = c.Rate, c.MaxAge, c.HiddenOffline
	return s
}

func set[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// Validate reports all faults, joined.
func (c Config) Validate() error {
	faults := []error{c.Kafka.Validate()}
	fault := func(wrong bool, field, reason string) {
		if wrong {
			faults = append(faults, schemas.Invalid("deliveries."+field, reason))
		}
	}
	fault(!names.MatchString(c.Name), "name", "must be 1 to 100 letters, digits, dots, dashes or underscores")
	fault(!names.MatchString(c.Instance), "instance", "must be 1 to 100 letters, digits, dots, dashes or underscores")
	s := c.settings()
	fault(s.Attempts < 1, "attempts", "must be positive")
	fault(s.FirstWait < 0, "first_wait", "must be positive")
	fault(s.MaxWait < s.FirstWait, "max_wait", "must be at least first_wait")
	fault(s.Timeout < 0, "timeout", "must be positive")
	fault(s.Concurrency < 1, "concurrency", "must be positive")
	fault(s.Queue < 1, "queue", "must be positive")
	fault(s.Remember < 1, "remember", "must be positive")
	fault(s.Rate < 0, "rate", "must not be negative")
	fault(s.MaxAge < 0, "max_age", "must not be negative")
	return errors.Join(faults...)
}

// Run brings deliveries to to until ctx ends, and returns when everything has stopped: what
// has not failed is delivered first. Kafka may be away; Run waits for it. The error is nil
// unless the channel was set up wrongly, or another process runs under the same Instance.
func Run(ctx context.Context, c Config, to Channel) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	cluster, err := connect.Kafka(c.Kafka, "stillhere-channel")
	if err != nil {
		return err
	}
	cluster.InstanceName = c.Instance
	runner, err := delivery.NewRunner(delivery.Job{Name: c.Name, Kafka: cluster, Settings: c.settings(), Channel: to, Refused: delivery.Refused(c.Refused),
		FromStart: c.FromStart, Registry: c.Registry, Log: c.Log})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

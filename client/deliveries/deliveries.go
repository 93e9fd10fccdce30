// Package deliveries runs a notification channel of your own: it reads presence.deliveries, which
// has the changes and their recipients, and passes each delivery to a Channel.
//
//	err := deliveries.Run(ctx, deliveries.Config{
//		Kafka: client.Kafka{Brokers: brokers}, Name: "push", Instance: hostname,
//	}, myPush)
//
// # Promises
//
// A channel of your own has the promises of the built-in channels. Processes with the same Name
// share the deliveries as a consumer group. Every delivery reaches the channel at least once, or
// the dead-letter topic after Config.Attempts. Deliveries of one user come in order and one at a
// time; those of different users come concurrently. For one recipient, an older version of a user
// never comes after a newer one, and none comes twice until the process restarts; after a crash
// some come again, with the same ID. Nothing is delivered about a hidden user.
//
// A failed delivery is repeated after a growing, jittered pause. It delays only later deliveries of
// the same user. An offset is committed only when everything before it was delivered, withheld or
// written to the dead-letter topic.
package deliveries

import (
	"cmp"
	"context"
	"log/slog"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/internal/connect"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// Channel notifies recipients.
type Channel interface {
	// Deliver notifies the recipients of n. Several goroutines call it, for one user one at a time.
	// After an error it is called again with the same n, or with fewer recipients. An error of
	// Permanent prevents that; an error of After sets the pause. ctx ends after Config.Timeout.
	Deliver(ctx context.Context, n schemas.Notice) error
}

// Func is a Channel that is one function.
type Func func(ctx context.Context, n schemas.Notice) error

// Deliver calls f.
func (f Func) Deliver(ctx context.Context, n schemas.Notice) error { return f(ctx, n) }

// Permanent marks an error that a repetition cannot resolve: the delivery is written to the
// dead-letter topic at once.
func Permanent(err error) error { return delivery.Permanent(err) }

// After marks an error after which the next attempt waits that long, at most Config.MaxWait.
func After(wait time.Duration, err error) error { return delivery.After(wait, err) }

// Config configures a channel. Kafka, Name and Instance are required.
type Config struct {
	Kafka client.Kafka
	// Name is the channel's name: 1 to 100 letters, digits, dots, dashes or underscores. Its
	// consumer group is stillhere.channel.Name.
	Name string
	// Instance is the stable name of this process, unique in the channel; of the same characters.
	Instance string
	// Transitions makes it a channel of every change of every user, from presence.transitions, instead of
	// deliveries to followers: notices have no recipients. Its consumer group is
	// stillhere.channel.Name.transitions.
	Transitions bool
	// FromStart makes a new channel begin with the oldest delivery or transition that the topic has, not with
	// the next one.
	FromStart bool
	// Attempts is how often a delivery is tried before it goes to the dead-letter topic [8].
	Attempts int
	// FirstWait is the pause before the second attempt [200ms]; it doubles up to MaxWait [30s].
	FirstWait, MaxWait time.Duration
	// Timeout bounds one attempt [10s].
	Timeout time.Duration
	// Concurrency is how many deliveries of a partition are tried at the same time [8], besides as
	// many that are repeated or take longer than a second.
	Concurrency int
	// Queue bounds the unfinished deliveries of a partition [1,000]. While it is full the partition
	// is not read.
	Queue int
	// Rate is how many deliveries a second begin at most; 0: no bound.
	Rate float64
	// Remember is for how many pairs of recipient and user the last delivered version is
	// remembered, so that none is delivered twice [1,000,000]; about 60 bytes each.
	Remember int
	// MaxAge: older deliveries are skipped; 0: none.
	MaxAge time.Duration
	// HiddenOffline is for services that run with --shown-as offline, which show a hidden user as
	// offline: then the change to offline is delivered for a hidden user, too.
	HiddenOffline bool
	// Refused returns those of recipients, in their order, who may not see user now. It is called
	// before each attempt; an error delays the attempt. nil: everybody may.
	Refused func(ctx context.Context, user schemas.UserID, recipients []schemas.UserID) ([]schemas.UserID, error)
	// Log is where the channel logs [slog.Default].
	Log *slog.Logger
	// Registry is where metrics are registered; nil: nowhere.
	Registry prometheus.Registerer
}

func (c Config) settings() delivery.Config {
	s := delivery.Defaults()
	s.Attempts = cmp.Or(c.Attempts, s.Attempts)
	s.FirstWait = cmp.Or(c.FirstWait, s.FirstWait)
	s.MaxWait = cmp.Or(c.MaxWait, s.MaxWait)
	s.Timeout = cmp.Or(c.Timeout, s.Timeout)
	s.Concurrency = cmp.Or(c.Concurrency, s.Concurrency)
	s.Queue = cmp.Or(c.Queue, s.Queue)
	s.Remember = cmp.Or(c.Remember, s.Remember)
	s.Rate, s.MaxAge, s.HiddenOffline = c.Rate, c.MaxAge, c.HiddenOffline
	return s
}

var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// Validate reports all faults, joined.
func (c Config) Validate() error {
	var all faults.List
	all.Add(c.Kafka.Validate())
	const form = "must be 1 to 100 letters, digits, dots, dashes or underscores"
	all.Field(!names.MatchString(c.Name), "deliveries.name", form)
	all.Field(!names.MatchString(c.Instance), "deliveries.instance", form)
	s := c.settings()
	all.Field(c.Transitions && c.Refused != nil, "deliveries.refused",
		"must be nil with transitions, which have no recipients")
	all.Field(s.Attempts < 1, "deliveries.attempts", "must be positive")
	all.Field(s.FirstWait < 0, "deliveries.first_wait", "must be positive")
	all.Field(s.MaxWait < s.FirstWait, "deliveries.max_wait", "must be at least first_wait")
	all.Field(s.Timeout < 0, "deliveries.timeout", "must be positive")
	all.Field(s.Concurrency < 1, "deliveries.concurrency", "must be positive")
	all.Field(s.Queue < 1, "deliveries.queue", "must be positive")
	all.Field(s.Remember < 1, "deliveries.remember", "must be positive")
	all.Field(s.Rate < 0, "deliveries.rate", "must not be negative")
	all.Field(s.MaxAge < 0, "deliveries.max_age", "must not be negative")
	return all.Err()
}

// Run passes deliveries to to until ctx ends. It returns when everything has stopped; deliveries
// that it has read and that have not failed are delivered first. If Kafka is unreachable, Run waits
// for it. The error is nil unless the configuration is invalid or another process runs under the
// same Instance.
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
	runner, err := delivery.NewRunner(delivery.Job{Name: c.Name, Kafka: cluster, Settings: c.settings(), Channel: to,
		Refused: delivery.Refused(c.Refused), Transitions: c.Transitions, FromStart: c.FromStart, Registry: c.Registry, Log: c.Log})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

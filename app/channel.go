package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/outage"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
)

// ChannelRun says how to run a notification channel.
type ChannelRun struct {
	// Name is the channel's: its consumer group is stillhere.channel.Name.
	Name string
	// Transitions sends all transitions in place of the deliveries, to consumer group
	// stillhere.channel.Name.transitions. MayWatch has to be WatchEveryone then.
	Transitions bool
	// Instance is the stable name of this process among those of the channel.
	Instance string
	Kafka    Kafka
	Config   Deliveries
	// Channel delivers a notice to its recipients. client/deliveries documents its contract.
	Channel interface {
		Deliver(ctx context.Context, n schemas.Notice) error
	}
	// Tenants, if any, are the tenants whose users' changes are sent; ExceptTenants those whose are not.
	// One of both, with --ids text.
	Tenants, ExceptTenants []string
	// FromStart starts a new channel at the oldest delivery in the topic rather than now.
	FromStart bool
	// MayWatch is Config.MayWatch. With WatchFollowers, each try reads in Graph, with the
	// limits of Postgres, which recipients still follow the user.
	MayWatch string
	Graph    Store
	Postgres pgstore.Config
	// WithoutGroup reads everything in this process and stores no offsets.
	WithoutGroup bool
	AdminServer
}

// Deliveries says how deliveries are tried. The tags describe the flags of "channel webhook"
// that set the fields.
type Deliveries struct {
	Attempts    int           `kong:"-"` // before a delivery goes to the dead-letter topic
	FirstWait   time.Duration `kong:"-"` // before the second try; it doubles, with jitter
	MaxWait     time.Duration `kong:"-"` // also if the receiver asks for more with Retry-After
	Timeout     time.Duration `help:"Timeout of a try." default:"10s"`
	Concurrency int           `kong:"-"` // concurrent deliveries per partition; as many again may be retries or take longer than a second
	Queue       int           `help:"Maximum pending deliveries of a partition: running, waiting for another of the same user, or waiting for a retry. A full queue stops reading the partition." default:"1000"`
	Rate        float64       `help:"Maximum deliveries per second; 0: no limit." default:"0"`
	Remember    int           `kong:"-"` // pairs of recipient and user whose last delivery is remembered, 60 bytes each
	// HiddenOffline shows hidden users as offline; see Config.HiddenOffline.
	HiddenOffline bool          `kong:"-"`
	MaxAge        time.Duration `help:"Skip deliveries older than this, for example after the channel was down; 0: skip none." default:"0s"`
}

// DefaultDeliveries returns the defaults of Deliveries.
func DefaultDeliveries() Deliveries { return Deliveries(delivery.Defaults()) }

// errTransitionsForFollowers: a channel of all transitions has no recipients who could be asked about.
var errTransitionsForFollowers = errors.New("may_watch: followers cannot be had with --of transitions: its receiver sees " +
	"every user who is not hidden, and has to decide itself who may see whom; set --may-watch everyone for this channel")

// RunChannel brings deliveries to a channel until ctx ends. It reads the hidden set first and
// delivers nothing before it does.
func RunChannel(ctx context.Context, run ChannelRun, log *slog.Logger) error {
	cluster, err := run.Kafka.cluster()
	admin := run.AdminServer
	if run.Transitions && run.MayWatch == WatchFollowers {
		err = errors.Join(err, errTransitionsForFollowers)
	}
	if err := errors.Join(err, admin.validate(), validateAccess(run.MayWatch, "")); err != nil {
		return err
	}
	cluster.InstanceName = run.Instance
	outages := outage.New(log.Handler())
	log = slog.New(outages.Handler())
	registry := prometheus.NewRegistry()
	job := delivery.Job{Name: run.Name, Kafka: cluster, Settings: delivery.Config(run.Config), Channel: run.Channel,
		Tenants:     delivery.Tenants{Only: run.Tenants, Except: run.ExceptTenants},
		Transitions: run.Transitions, FromStart: run.FromStart, WithoutGroup: run.WithoutGroup, Registry: registry, Log: log}
	if run.MayWatch == WatchFollowers {
		store, err := OpenGraph(ctx, run.Graph, run.Postgres)
		if err != nil {
			return fmt.Errorf("opening the follower graph, which decides who may receive deliveries: %w", err)
		}
		defer store.Close()
		job.Refused = (&decision{follows: store}).mayReceive
	}
	runner, err := delivery.NewRunner(job)
	if err != nil {
		return err
	}
	servers := []outage.Dependency{{Name: "kafka", Addresses: cluster.Brokers, Probe: runner.Ping}}
	watch := service{"outages", loops, func(ctx context.Context) error { return outages.Run(ctx, servers) }}
	return RunCommand(ctx, Command{Name: "channel", Registry: registry, Run: runner.Run, Ready: runner.Ready,
		AdminServer: admin, status: runner.Kafka().Status, close: runner.Close, beside: []service{watch}}, log)
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// ChannelRun says how to run a notification channel.
type ChannelRun struct {
	// Name is the channel's: its consumer group is stillhere.channel.Name.
	Name string
	// Instance is the stable name of this process among those of the channel.
	Instance string
	Kafka    kafka.Config
	Config   delivery.Config
	Channel  delivery.Channel
	// FromStart takes a channel that is new from the start of what is kept rather
	// than from now.
	FromStart bool
	// MayWatch is Config.MayWatch: with WatchFollowers it is asked before each try who of
	// the recipients still follows the user, by Graph, which Postgres says how to treat.
	MayWatch string
	Graph    Store
	Postgres pgstore.Config
	// WithoutGroup reads everything in this process and keeps no offsets.
	WithoutGroup bool
	// Admin is where health and metrics are; empty: nowhere.
	Admin string
	// AdminPort says what is shown there and to whom, AllowedHosts for which hosts besides
	// Admin and the loopback it may be asked.
	AdminPort    Admin
	AllowedHosts []string
}

// RunChannel brings deliveries to a channel until ctx ends. It reads the hidden set first and
// delivers nothing before it does.
func RunChannel(ctx context.Context, run ChannelRun, log *slog.Logger) (err error) {
	if err := errors.Join(run.AdminPort.check(run.Admin), validateHosts(run.AllowedHosts)); err != nil {
		return err
	}
	switch run.MayWatch {
	case "", WatchEveryone, WatchFollowers:
	default:
		return fmt.Errorf("may_watch: must be %s or %s, is %q", WatchEveryone, WatchFollowers, run.MayWatch)
	}
	run.Kafka.InstanceName = run.Instance
	registry := prometheus.NewRegistry()
	job := delivery.Job{Name: run.Name, Kafka: run.Kafka, Settings: run.Config, Channel: run.Channel, FromStart: run.FromStart,
		WithoutGroup: run.WithoutGroup, Registry: registry, Log: log}
	if run.MayWatch == WatchFollowers {
		store, err := OpenGraph(ctx, run.Graph, run.Postgres)
		if err != nil {
			return fmt.Errorf("the follower graph, which says who may be told: %w", err)
		}
		defer store.Close()
		job.Refused = (&decision{follows: store}).mayReceive
	}
	runner, err := delivery.NewRunner(job)
	if err != nil {
		return err
	}
	services := []service{{"channel " + run.Name, loops, runner.Run}}
	if run.Admin != "" {
		l, err := listen(nil, run.Admin)
		if err != nil {
			return errors.Join(err, runner.Close(ctx))
		}
		checks := []check{{name: "channel", ready: func(context.Context) error { return runner.Ready() }}}
		l = newBounded(l, adminPort, adminConnections, 0, newConnectionMetrics(registry), log)
		services = append(services, service{adminPort, servers, serve(l, allowHosts(run.Admin, run.AllowedHosts,
			adminRoutes(registry, checks, runner.Kafka().Status, run.AdminPort.Profiles)), profileTimeout, log)})
	}
	return runAll(ctx, services)
}

// RunLiveChannel brings deliveries to the sockets of those who want them, over redis,
// until ctx ends.
func RunLiveChannel(ctx context.Context, run ChannelRun, redis Redis, log *slog.Logger) error {
	redis = redis.named(run.Kafka)
	if err := checkRedisClaim(ctx, run.Kafka, redis); errors.Is(err, errNotOurs) { // or Redis is away, which passes
		return err
	}
	bus, err := redisbus.Open(redis.options(), fanout.DefaultConfig(), fanout.NewMetrics(nil), log)
	if err != nil {
		return err
	}
	defer func() { _ = bus.Close() }()
	run.Channel = channel.NewLive(bus)
	return RunChannel(ctx, run, log)
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/online"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
)

// ChannelRun says how to run a notification channel.
type ChannelRun struct {
	// Name is the channel's: its consumer group is stillhere.channel.Name.
	Name string
	// Instance is the stable name of this process among those of the channel.
	Instance string
	Kafka    kafka.Config
	Config   channel.Config
	Channel  channel.Channel
	// FromStart takes a channel that is new from the start of what is kept rather
	// than from now.
	FromStart bool
	// MayWatch is Config.MayWatch: with WatchFollowers it is asked before each try who of
	// the recipients still follows the user, by Graph, which Postgres says how to treat.
	MayWatch string
	Graph    Store
	Postgres pgstore.Config
	// Alone reads everything in this process and keeps no offsets.
	Alone bool
	// Admin is where health and metrics are; empty: nowhere.
	Admin string
	// AdminPort says what is shown there and to whom, AllowedHosts for which hosts besides
	// Admin and the loopback it may be asked.
	AdminPort    Admin
	AllowedHosts []string
}

// RunChannel brings deliveries to a channel until ctx ends. It knows who hides, and
// delivers nothing before it does.
func RunChannel(ctx context.Context, run ChannelRun, log *slog.Logger) (err error) {
	if !instanceName.MatchString(run.Name) {
		return errors.New("name: must be 1 to 100 letters, digits, dots, dashes or underscores")
	}
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
	metrics := kafka.NewMetrics(registry)
	producer, err := kafka.NewProducer(run.Kafka, log, metrics)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, producer.Close(closing))
	}()
	group := "stillhere.channel." + run.Name
	hidden := online.OnlyWhoHides()
	consumer, err := channel.NewConsumer(run.Config, run.Channel, hidden.Hides, func(ctx context.Context, r *schemas.Record, reason error) error {
		return producer.SetAside(ctx, schemas.Deliveries, group, r, reason)
	}, channel.NewMetrics(registry), log)
	if err != nil {
		return err
	}
	if run.MayWatch == WatchFollowers {
		store, err := OpenGraph(ctx, run.Graph, run.Postgres)
		if err != nil {
			return fmt.Errorf("the follower graph, which says who may be told: %w", err)
		}
		defer store.Close()
		consumer.Ask((&decision{follows: store}).mayReceive)
	}
	var options []kafka.FollowOption
	if !run.FromStart {
		options = append(options, kafka.FromEnd())
	}
	if run.Alone {
		options = append(options, kafka.Alone())
	}
	reader, err := kafka.NewReader(run.Kafka, log)
	if err != nil {
		return err
	}
	defer reader.Close()
	origin := NewOrigin(run.Kafka, reader, 0)
	decode := func(r *schemas.Record) (channel.Item, error) {
		item, err := channel.Decode(r)
		if err == nil {
			err = origin.Check(schemas.Deliveries, r, item.Delivery.Transition)
		}
		return item, err
	}
	statuses := kafka.Follow(run.Kafka, group+".here", schemas.Statuses, online.Checked(origin.checkStatus), hidden, producer, log, metrics, kafka.Alone())
	loop := kafka.Follow(run.Kafka, group, schemas.Deliveries, decode, consumer, producer, log, metrics, options...)
	services := []service{
		{"who hides", loops, statuses.Run},
		{"channel " + run.Name, loops, startWhenReady(statuses.Ready, loop.Run)},
	}
	if run.Admin != "" {
		l, err := listen(nil, run.Admin)
		if err != nil {
			return err
		}
		checks := []check{{name: "channel", ready: func(context.Context) error { return loop.Ready() }}}
		l = newBounded(l, "admin", adminConnections, 0, newConnectionMetrics(registry), log)
		services = append(services, service{"admin", doors, serve(l, allowHosts(run.Admin, run.AllowedHosts,
			adminRoutes(registry, checks, metrics.Status, run.AdminPort.Profiles)), profileTimeout, log)})
	}
	return runAll(ctx, services)
}

// RunLiveChannel brings deliveries to the sockets of those who want them, over redis,
// until ctx ends.
func RunLiveChannel(ctx context.Context, run ChannelRun, redis Redis, log *slog.Logger) error {
	redis = redis.named(run.Kafka)
	if err := checkRedis(ctx, run.Kafka, redis); errors.Is(err, errNotOurs) { // or Redis is away, which passes
		return err
	}
	bus, err := redisbus.Open(redis.bus(), fanout.DefaultConfig(), fanout.NewMetrics(nil), log)
	if err != nil {
		return err
	}
	defer func() { _ = bus.Close() }()
	run.Channel = channel.NewLive(bus)
	return RunChannel(ctx, run, log)
}

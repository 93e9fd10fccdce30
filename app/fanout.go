package app

import (
	"context"
	"errors"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/publish"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// All partitions of a loop wait for one poll of it. Jobs are large, so a worker takes few.
const (
	plannerPoll = 256
	workerPoll  = 4
)

// liveMaxAge: to a socket older deliveries are no news.
const liveMaxAge = time.Minute

type fanoutDeps struct {
	base
	bus     *redisbus.Bus
	graph   *graph.Store // of newFollowerFanout
	origin  *origin.Origin
	metrics *fanout.Metrics
}

// newFanout publishes changes to viewers.
func newFanout(d fanoutDeps) (component, error) {
	handler := publish.New(d.bus, d.config.Fanout, d.metrics)
	return transitionLoop(d.base, d.origin, d.cluster, "publisher", publishGroup, handler, consumer.FromEnd()), nil
}

// newFollowerFanout writes deliveries for followers.
func newFollowerFanout(ctx context.Context, d fanoutDeps) (c component, err error) {
	jobs, err := d.producer.Partitions(ctx, schemas.Fanout)
	if err != nil {
		return c, err
	}
	deliveries, err := d.producer.Partitions(ctx, schemas.Deliveries)
	if err != nil {
		return c, err
	}
	config := d.config.Expand
	cache := graph.NewCache(graph.CacheConfig{Most: config.HighFollower, IDs: config.CacheFollowers, TTL: config.CacheTTL,
		Listed: config.Mode == expand.Listed}, d.graph, d.log)
	present, newest := shown.NewSet(), expand.NewNewest()
	deps := &expand.Dependencies{Config: config, Followers: cache, Graph: d.graph, Online: present, Newest: newest,
		Metrics: expand.NewMetrics(d.registry), Jobs: jobs, Deliveries: deliveries, Check: d.origin.Check}
	if d.cluster.Users.Text() {
		deps.Names = d.graph
	}
	statuses := consumer.New(d.cluster, onlineGroup, schemas.Statuses, shown.Checked(d.origin.CheckStatus), present,
		d.producer, d.log, d.kafkaMetrics, consumer.WithoutGroup())
	known := consumer.New(d.cluster, newestGroup, schemas.Fanout, deps.DecodeJob, newest,
		d.producer, d.log, d.kafkaMetrics, consumer.WithoutGroup())
	c.services = []service{{"graph cache", loops, cache.Run}, {"online users", loops, statuses.Run}, {"newest jobs", loops, known.Run}}
	ready := func() error { return errors.Join(statuses.Ready(), known.Ready()) }

	c = c.with(followerLoop(d.base, "follower planner", plannerGroup, schemas.Transitions, plannerPoll, ready,
		func(int32) processor.Task { return deps.NewPlanner() }, schemas.Fanout, schemas.Deliveries))
	c = c.with(followerLoop(d.base, "follower worker", workerGroup, schemas.Fanout, workerPoll, ready,
		func(int32) processor.Task { return deps.NewWorker() }, schemas.Deliveries))
	live, err := newLiveDeliveries(d, present, statuses.Ready)
	return c.with(live), err
}

// newLiveDeliveries sends deliveries to the sockets of followers that asked for them.
func newLiveDeliveries(d fanoutDeps, known *shown.Set, ready func() error) (component, error) {
	config := delivery.Defaults()
	config.HiddenOffline, config.MaxAge = d.config.HiddenOffline, liveMaxAge
	deliverer, err := delivery.NewConsumer(config, channel.NewLive(d.bus).Deliver, known.HiddenAfter,
		func(ctx context.Context, r *schemas.Record, reason error) error {
			return d.producer.SendToDeadLetter(ctx, schemas.Deliveries, liveGroup, r, reason)
		}, delivery.NewMetrics(d.registry), d.log)
	if err != nil {
		return component{}, err
	}
	deliverer.WithholdErased(known.ErasedAfter)
	deliveries := consumer.New(d.cluster, liveGroup, schemas.Deliveries, delivery.Checked(d.origin.Check), deliverer,
		d.producer, d.log, d.kafkaMetrics, consumer.FromEnd())
	return loop("live deliveries", consumer.RunWhen(ready, deliveries.Run), deliveries.Ready), nil
}

// followerLoop is an exactly-once loop that begins when ready returns nil.
func followerLoop(p base, name, group string, input schemas.Topic, poll int, ready func() error, task func(int32) processor.Task, writes ...schemas.Topic) component {
	config := p.cluster
	config.MaxPollRecords = poll
	proc := processor.New(config, group, input, task, p.producer, p.log, p.kafkaMetrics).Writes(writes...)
	return loop(name, consumer.RunWhen(ready, proc.Run), proc.Ready)
}

package app

import (
	"context"
	"errors"
	"time"

	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/publish"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/kafka/processor"
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

// newFanout publishes changes to viewers.
func (b *builder) newFanout() component {
	handler := publish.New(b.bus, b.config.Fanout, b.useFanoutMetrics())
	return transitionLoop(b.base, b.origin, b.cluster, "publisher", publishGroup, handler, consumer.FromEnd())
}

// newFollowerFanout writes deliveries for followers.
func (b *builder) newFollowerFanout(ctx context.Context) (c component, err error) {
	jobs, err := b.producer.Partitions(ctx, schemas.Fanout)
	if err != nil {
		return c, err
	}
	deliveries, err := b.producer.Partitions(ctx, schemas.Deliveries)
	if err != nil {
		return c, err
	}
	config := b.config.Expand
	cache := graph.NewCache(graph.CacheConfig{Most: config.HighFollower, IDs: config.CacheFollowers, TTL: config.CacheTTL,
		Listed: config.Mode == expand.Listed}, b.graph, b.log)
	present, newest := shown.NewSet(), expand.NewNewest()
	deps := &expand.Dependencies{Config: config, Followers: cache, Graph: b.graph, Online: present, Newest: newest,
		Denied: b.view.Denied, Metrics: expand.NewMetrics(b.registry), Jobs: jobs, Deliveries: deliveries, Check: b.origin.Check}
	if b.cluster.Users.Text() {
		deps.Names = b.graph
	}
	statuses := consumer.New(b.cluster, onlineGroup, schemas.Statuses, shown.Checked(b.origin.CheckStatus), present,
		b.producer, b.log, b.kafkaMetrics, consumer.WithoutGroup())
	known := consumer.New(b.cluster, newestGroup, schemas.Fanout, deps.DecodeJob, newest,
		b.producer, b.log, b.kafkaMetrics, consumer.WithoutGroup())
	c.services = []service{{"graph cache", loops, cache.Run}, {"online users", loops, statuses.Run}, {"newest jobs", loops, known.Run}}
	ready := func() error { return errors.Join(statuses.Ready(), known.Ready()) }

	c = c.with(followerLoop(b.base, "follower planner", plannerGroup, schemas.Transitions, plannerPoll, ready,
		func(int32) processor.Task { return deps.NewPlanner() }, schemas.Fanout, schemas.Deliveries))
	c = c.with(followerLoop(b.base, "follower worker", workerGroup, schemas.Fanout, workerPoll, ready,
		func(int32) processor.Task { return deps.NewWorker() }, schemas.Deliveries))
	live, err := b.newLiveDeliveries(present, statuses.Ready)
	return c.with(live), err
}

// newLiveDeliveries sends deliveries to the sockets of followers that asked for them.
func (b *builder) newLiveDeliveries(known *shown.Set, ready func() error) (component, error) {
	config := delivery.Defaults()
	config.HiddenOffline, config.MaxAge = b.config.HiddenOffline, liveMaxAge
	deliverer, err := delivery.NewConsumer(config, channel.NewLive(b.bus).Deliver, known.HiddenAfter,
		func(ctx context.Context, r *schemas.Record, reason error) error {
			return b.producer.SendToDeadLetter(ctx, schemas.Deliveries, liveGroup, r, reason)
		}, delivery.NewMetrics(b.registry), b.log)
	if err != nil {
		return component{}, err
	}
	deliverer.WithholdErased(known.ErasedAfter)
	deliveries := consumer.New(b.cluster, liveGroup, schemas.Deliveries, delivery.Checked(b.origin.Check), deliverer,
		b.producer, b.log, b.kafkaMetrics, consumer.FromEnd())
	return loop("live deliveries", consumer.RunWhen(ready, deliveries.Run), deliveries.Ready), nil
}

// followerLoop is an exactly-once loop that begins when ready returns nil.
func followerLoop(p base, name, group string, input schemas.Topic, poll int, ready func() error, task func(int32) processor.Task, writes ...schemas.Topic) component {
	config := p.cluster
	config.MaxPollRecords = poll
	proc := processor.New(config, group, input, task, p.producer, p.log, p.kafkaMetrics).Writes(writes...)
	return loop(name, consumer.RunWhen(ready, proc.Run), proc.Ready)
}

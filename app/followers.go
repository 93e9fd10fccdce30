package app

import (
	"context"
	"errors"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/online"
	"github.com/stillhere/stillhere/schemas"
)

// Groups of the follower fan-out. Two of them are names only: every process reads
// all of the topic.
const (
	plannerGroup = "stillhere.fanout.planner"
	workerGroup  = "stillhere.fanout.worker"
	hereGroup    = "stillhere.fanout.here"
	newestGroup  = "stillhere.fanout.newest"
)

// One turn of a loop is what everybody else in it waits for: of jobs, which are
// large, it takes few.
const (
	plannerPoll = 256
	workerPoll  = 4
)

// followerFanout tells followers, where it is switched on.
func (b *builder) followerFanout(ctx context.Context) error {
	if b.config.Expand.Mode == expand.Off {
		return nil
	}
	store, err := b.followerGraph(ctx)
	if err != nil {
		return err
	}
	origin, err := b.origin()
	if err != nil {
		return err
	}
	jobs, err := b.producer.Partitions(ctx, schemas.Fanout)
	if err != nil {
		return err
	}
	deliveries, err := b.producer.Partitions(ctx, schemas.Deliveries)
	if err != nil {
		return err
	}
	config := b.config.Expand
	cache := graph.NewCache(graph.CacheConfig{Most: config.HighFollower, IDs: config.CacheFollowers, TTL: config.CacheTTL,
		Listed: config.Mode == expand.Listed}, store, b.log)
	b.service("graph cache", loops, cache.Run)

	register, newest := online.NewRegister(), expand.NewNewest()
	room := &expand.Room{Config: config, Followers: cache, Graph: store, Here: register, Newest: newest,
		Metrics: expand.NewMetrics(b.registry), Jobs: jobs, Deliveries: deliveries, Check: origin.Check}
	statuses := kafka.Follow(b.config.Kafka, hereGroup, schemas.Statuses, online.Checked(origin.CheckStatus), register, b.producer, b.log, b.streamMetrics, kafka.Alone())
	known := kafka.Follow(b.config.Kafka, newestGroup, schemas.Fanout, room.DecodeJob, newest, b.producer, b.log, b.streamMetrics, kafka.Alone())
	b.service("who is here", loops, statuses.Run)
	b.service("newest jobs", loops, known.Run)
	ready := func() error { return errors.Join(statuses.Ready(), known.Ready()) }

	b.transform("follower planner", plannerGroup, schemas.Transitions, plannerPoll, ready, func(int32) kafka.Task { return room.NewPlanner() },
		schemas.Fanout, schemas.Deliveries)
	b.transform("follower worker", workerGroup, schemas.Fanout, workerPoll, ready, func(int32) kafka.Task { return room.NewWorker() }, schemas.Deliveries)
	return nil
}

// transform adds an exactly-once loop that begins when known is nil.
func (b *builder) transform(name, group string, input schemas.Topic, poll int, known func() error, task func(int32) kafka.Task, writes ...schemas.Topic) {
	config := b.config.Kafka
	config.MaxPollRecords = poll
	loop := kafka.NewTransform(config, group, input, task, b.producer, b.log, b.streamMetrics).Writes(writes...)
	b.service(name, loops, kafka.RunWhen(known, loop.Run))
	b.check(name, func(context.Context) error { return loop.Ready() })
}

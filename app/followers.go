package app

import (
	"context"
	"errors"
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/online"
	"github.com/stillhere/stillhere/internal/kafka"
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
func (h *house) followerFanout(ctx context.Context) error {
	if h.config.Expand.Mode == expand.Off {
		return nil
	}
	store, err := h.followerGraph(ctx)
	if err != nil {
		return err
	}
	origin, err := h.origin()
	if err != nil {
		return err
	}
	jobs, err := h.producer.Partitions(ctx, schemas.Fanout)
	if err != nil {
		return err
	}
	deliveries, err := h.producer.Partitions(ctx, schemas.Deliveries)
	if err != nil {
		return err
	}
	config := h.config.Expand
	cache := graph.NewCache(graph.CacheConfig{Most: config.HighFollower, IDs: config.CacheFollowers, TTL: config.CacheTTL,
		Listed: config.Mode == expand.Listed}, store, h.log)
	h.service("graph cache", loops, cache.Run)

	register, newest := online.NewRegister(), expand.NewNewest()
	room := &expand.Room{Config: config, Followers: cache, Graph: store, Here: register, Newest: newest,
		Metrics: expand.NewMetrics(h.registry), Jobs: jobs, Deliveries: deliveries, Check: origin.Check}
	statuses := kafka.Follow(h.config.Kafka, hereGroup, schemas.Statuses, online.Checked(origin.checkStatus), register, h.producer, h.log, h.streamMetrics, kafka.Alone())
	known := kafka.Follow(h.config.Kafka, newestGroup, schemas.Fanout, room.DecodeJob, newest, h.producer, h.log, h.streamMetrics, kafka.Alone())
	h.service("who is here", loops, statuses.Run)
	h.service("newest jobs", loops, known.Run)
	ready := func() error { return errors.Join(statuses.Ready(), known.Ready()) }

	h.transform("follower planner", plannerGroup, schemas.Transitions, plannerPoll, ready, func(int32) kafka.Task { return room.NewPlanner() },
		schemas.Fanout, schemas.Deliveries)
	h.transform("follower worker", workerGroup, schemas.Fanout, workerPoll, ready, func(int32) kafka.Task { return room.NewWorker() }, schemas.Deliveries)
	return nil
}

// informed is run, begun when known is nil.
func informed(known func() error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for known() != nil {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
		return run(ctx)
	}
}

// transform adds an exactly-once loop that begins when known is nil.
func (h *house) transform(name, group string, input schemas.Topic, poll int, known func() error, task func(int32) kafka.Task, writes ...schemas.Topic) {
	config := h.config.Kafka
	config.MaxPollRecords = poll
	loop := kafka.NewTransform(config, group, input, task, h.producer, h.log, h.streamMetrics).Writes(writes...)
	h.service(name, loops, informed(known, loop.Run))
	h.check(name, func(context.Context) error { return loop.Ready() })
}

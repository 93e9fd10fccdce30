package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/online"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

const (
	fanoutStar  = schemas.UserID(1) << 61 // the celebrity; its followers are 1, 2, 3 ...
	fanoutSmall = 2000                    // users with few followers, behind the celebrity's id
	fanoutFew   = 50                      // followers of each
	fanoutBeat  = 10 * time.Millisecond   // between two changes of users with few followers
	fanoutChunk = 200_000
)

// fanout measures the way from a transition to delivery records: one worker
// reading a celebrity's followers from the store, without Kafka; two workers with
// everything; and how long the followers of other users wait meanwhile. All
// followers are here. Transitions are written by the bench, so the detector is not
// in it.
func (l *lab) fanout(ctx context.Context, o *loadtest.Options, r *loadtest.Result) (err error) {
	rig, err := loadtest.NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	store, name, closeStore, err := l.graph(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	r.Note("The graph is in " + name + ".")
	if err := fillGraph(ctx, o, store); err != nil {
		return err
	}
	f := &fanoutRig{Rig: rig, o: o, store: store, register: online.NewSet(), heard: newHeard()}
	if err := f.everybodyIsHere(ctx); err != nil {
		return err
	}
	if err := f.oneWorker(ctx, r); err != nil {
		return err
	}
	return f.pipeline(ctx, r)
}

type fanoutRig struct {
	*loadtest.Rig
	o        *loadtest.Options
	store    *graph.Store
	register *online.Set
	heard    *heard
	version  schemas.Version
	small    int
}

func (f *fanoutRig) everybodyIsHere(ctx context.Context) error {
	items := make([]online.Entry, 0, fanoutChunk)
	for i := 1; i <= f.o.Users; i++ {
		items = append(items, online.Entry{User: schemas.UserID(i), Present: true})
		if len(items) == cap(items) || i == f.o.Users {
			if err := f.register.Apply(ctx, stream.Batch[online.Entry]{Items: items}); err != nil {
				return err
			}
			items = items[:0]
		}
	}
	return nil
}

// room is what the workers of a process share, with the defaults of production.
func (f *fanoutRig) room(config expand.Config, followers expand.Followers, newest *expand.Newest) *expand.Dependencies {
	return &expand.Dependencies{Config: config, Followers: followers, Graph: f.store, Online: f.register, Newest: newest,
		Metrics: expand.NewMetrics(nil), Jobs: f.o.Partitions, Deliveries: f.o.Partitions}
}

// oneWorker does all jobs of an expansion, one batch after the other.
func (f *fanoutRig) oneWorker(ctx context.Context, r *loadtest.Result) error {
	config := expand.Defaults()
	config.Mode, config.Rate = expand.All, 0
	worker := f.room(config, nil, expand.NewNewest()).NewWorker()
	split := schemas.FanoutJob{Kind: schemas.SplitJob, Transition: f.change(fanoutStar)}
	var jobs, out stream.Outbox
	begun := time.Now()
	if err := worker.HandleBatch(ctx, []schemas.Record{{Value: split.Encode()}}, &jobs); err != nil {
		return err
	}
	cut := time.Since(begun)
	begun = time.Now()
	bytes := 0
	err := f.o.Measured(func() error {
		for len(jobs.Records) > 0 {
			n := min(len(jobs.Records), 4)
			var records []schemas.Record
			for _, j := range jobs.Records[:n] {
				records = append(records, schemas.Record{Value: j.Value})
			}
			jobs.Records = jobs.Records[n:]
			out.Records = out.Records[:0]
			if err := worker.HandleBatch(ctx, records, &out); err != nil {
				return err
			}
			for _, d := range out.Records {
				bytes += len(d.Value)
			}
			f.o.Progress.Say("  one worker: %d jobs left", len(jobs.Records))
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(begun)
	r.Add("followers expanded by one worker from the store", float64(f.o.Users)/took.Seconds()/1e6, "M/s").AtLeast(1)
	r.Add("cutting them into ranges, once", cut.Seconds(), "s").LessIsBetter()
	r.Add("delivery records, per recipient", float64(bytes)/float64(f.o.Users), "bytes").LessIsBetter()
	return nil
}

// change is the next transition of a user.
func (f *fanoutRig) change(user schemas.UserID) *schemas.Transition {
	f.version++
	return &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: schemas.MillisOf(time.Now()), Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: f.version}
}

// publish writes a transition and notes when.
func (f *fanoutRig) publish(ctx context.Context, user schemas.UserID) (schemas.Version, error) {
	t := f.change(user)
	f.heard.expect(t.Version)
	err := f.Producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(user, f.o.Partitions),
		Key: user.Key(), Value: t.Encode()})
	return t.Version, err
}

// start runs the planners and workers of two processes, and a reader of what they
// write. stop ends them.
func (f *fanoutRig) start(ctx context.Context) (stop func() error, ready func() bool) {
	newest := expand.NewNewest()
	known := consumer.New(f.Kafka, "newest", schemas.Fanout, expand.DecodeJob, newest, f.Producer, f.Log, nil, consumer.WithoutGroup())
	hears := consumer.New(f.Kafka, "heard", schemas.Deliveries, decodeHeard, f.heard, f.Producer, f.Log, nil, consumer.WithoutGroup())
	loops := []*loadtest.Loop{loadtest.Go(ctx, known.Run), loadtest.Go(ctx, hears.Run)}
	checks := []func() error{known.Ready, hears.Ready}
	partitions := 0
	var count []*processor.Processor
	for _, name := range []string{"one", "two"} {
		config := expand.Defaults()
		config.Mode = expand.All
		cache := graph.NewCache(graph.CacheConfig{Most: config.HighFollower, IDs: config.CacheFollowers, TTL: time.Minute}, f.store, f.Log)
		room := f.room(config, cache, newest)
		cluster := f.Kafka
		cluster.InstanceName = name
		planning, working := cluster, cluster
		planning.MaxPollRecords, working.MaxPollRecords = 256, 4
		plan := processor.New(planning, f.Kafka.Prefix+"planner", schemas.Transitions, func(int32) processor.Task { return room.NewPlanner() }, f.Producer, f.Log, nil)
		work := processor.New(working, f.Kafka.Prefix+"worker", schemas.Fanout, func(int32) processor.Task { return room.NewWorker() }, f.Producer, f.Log, nil)
		loops = append(loops, loadtest.Go(ctx, cache.Run), loadtest.Go(ctx, plan.Run), loadtest.Go(ctx, work.Run))
		checks, count = append(checks, plan.Ready, work.Ready), append(count, plan, work)
	}
	stop = func() (err error) {
		for _, l := range loops {
			err = errors.Join(err, l.Stop())
		}
		return err
	}
	ready = func() bool {
		partitions = 0
		for _, t := range count {
			partitions += len(t.Status())
		}
		for _, check := range checks {
			if check() != nil {
				return false
			}
		}
		return partitions == 2*int(f.o.Partitions)
	}
	return stop, ready
}

// pipeline measures the whole way.
func (f *fanoutRig) pipeline(ctx context.Context, r *loadtest.Result) (err error) {
	stop, ready := f.start(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err := f.o.Until(ctx, func() string { return "waiting for the workers to get their partitions" }, ready); err != nil {
		return err
	}
	idle, err := f.smallUsers(ctx, "idle", f.o.Length(), func() bool { return false })
	if err != nil {
		return err
	}
	var took loadtest.Spread
	busy := loadtest.Spread{}
	for begun := time.Now(); len(took) == 0 || time.Since(begun) < f.o.Length(); {
		version, err := f.publish(ctx, fanoutStar)
		if err != nil {
			return err
		}
		since := time.Now()
		waits, err := f.smallUsers(ctx, "during an expansion", loadtest.Timeout, func() bool { return f.heard.count(version) >= f.o.Users })
		if err != nil {
			return err
		}
		if n := f.heard.count(version); n != f.o.Users {
			return fmt.Errorf("%d of %d followers were told", n, f.o.Users)
		}
		took, busy = append(took, time.Since(since)), append(busy, waits...)
	}
	slices.Sort(took)
	r.Add(fmt.Sprintf("%d followers of one user told by two workers, median", f.o.Users), took.At(0.5).Seconds(), "s").
		AtMost(10 * max(1, float64(f.o.Users)/10e6))
	_, calm, _ := r.AddSpread("change of a user with few followers to its delivery, idle", idle)
	quiet := calm.Value
	_, loud, _ := r.AddSpread("the same during expansions", busy)
	r.Add("p99 during expansions over idle", loud.Value/quiet, "times").AtMost(2)
	r.Note(fmt.Sprintf("%d expansions at the default rate of a worker; %d changes a second of users with %d followers each. Planners, workers, the reader and the bench share one process.",
		len(took), time.Second/fanoutBeat, fanoutFew))
	return nil
}

// smallUsers lets users with few followers change until done, for at most length,
// and tells how long each delivery took.
func (f *fanoutRig) smallUsers(ctx context.Context, what string, length time.Duration, done func() bool) (loadtest.Spread, error) {
	var versions []schemas.Version
	ticker := time.NewTicker(fanoutBeat)
	defer ticker.Stop()
	for begun := time.Now(); time.Since(begun) < length && !done(); {
		f.o.Progress.Say("  users with few followers, %s: %d changes", what, len(versions))
		f.small++
		version, err := f.publish(ctx, fanoutStar+1+schemas.UserID(f.small%fanoutSmall))
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var waits loadtest.Spread
	for _, v := range versions {
		// Of changes that came together only the last of a user is told.
		wait, err := f.heard.wait(ctx, v)
		if err != nil {
			return nil, err
		}
		waits = append(waits, wait)
	}
	return waits, nil
}

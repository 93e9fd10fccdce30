package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/shown"
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
// followers are online. Transitions are written by the bench, so the detector is not
// in it.
func (l *lab) fanout(t *loadtest.T) {
	rig := t.Rig()
	store := l.graph(t)
	fillGraph(t, store)
	f := &fanoutRig{Rig: rig, t: t, store: store, online: shown.NewSet(), arrivals: newArrivals()}
	f.everybodyIsOnline()
	f.oneWorker()
	f.pipeline()
}

type fanoutRig struct {
	*loadtest.Rig
	t        *loadtest.T
	store    *graph.Store
	online   *shown.Set
	arrivals *arrivals
	version  schemas.Version
	small    int
}

func (f *fanoutRig) everybodyIsOnline() {
	users := make([]shown.Entry, f.t.Users)
	for i := range users {
		users[i] = shown.Entry{User: schemas.UserID(i + 1), Present: true}
	}
	for some := range slices.Chunk(users, fanoutChunk) {
		f.t.Check(f.online.Apply(f.t.Context(), stream.Batch[shown.Entry]{Items: some}))
	}
}

// dependencies are what the workers of a process share, with the defaults of production.
func (f *fanoutRig) dependencies(config expand.Config, followers expand.Followers, newest *expand.Newest) *expand.Dependencies {
	return &expand.Dependencies{Config: config, Followers: followers, Graph: f.store, Online: f.online, Newest: newest,
		Metrics: expand.NewMetrics(nil), Jobs: f.t.Partitions, Deliveries: f.t.Partitions}
}

// oneWorker does all jobs of an expansion, one batch after the other.
func (f *fanoutRig) oneWorker() {
	t := f.t
	config := expand.Defaults()
	config.Mode, config.Rate = expand.All, 0
	worker := f.dependencies(config, nil, expand.NewNewest()).NewWorker()
	split := schemas.FanoutJob{Kind: schemas.SplitJob, Transition: f.change(fanoutStar)}
	var jobs, out stream.Outbox
	begun := time.Now()
	t.Check(worker.HandleBatch(t.Context(), []schemas.Record{{Value: split.Encode()}}, &jobs))
	cut := time.Since(begun)
	bytes := 0
	took := t.Measured(func() {
		for some := range slices.Chunk(jobs.Records, 4) {
			var records []schemas.Record
			for _, j := range some {
				records = append(records, schemas.Record{Value: j.Value})
			}
			out.Records = out.Records[:0]
			t.Check(worker.HandleBatch(t.Context(), records, &out))
			for _, d := range out.Records {
				bytes += len(d.Value)
			}
			t.Progress.Say("  one worker: %d delivery bytes", bytes)
		}
	})
	t.Add("followers expanded by one worker from the store", float64(t.Users)/took.Seconds()/1e6, "M/s").AtLeast(1)
	t.Add("cutting them into ranges, once", cut.Seconds(), "s").LessIsBetter()
	t.Add("delivery records, per recipient", float64(bytes)/float64(t.Users), "bytes").LessIsBetter()
}

// change is the next transition of a user.
func (f *fanoutRig) change(user schemas.UserID) *schemas.Transition {
	f.version++
	return &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: schemas.MillisOf(time.Now()), Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: f.version}
}

// publish writes a transition and notes when.
func (f *fanoutRig) publish(user schemas.UserID) schemas.Version {
	change := f.change(user)
	f.arrivals.expect(change.Version)
	f.t.Check(f.Producer.AppendSync(f.t.Context(), recordOf(change, f.t.Partitions)))
	return change.Version
}

// start runs the planners and workers of two processes, and a reader of what they write. It
// returns when they have their partitions.
func (f *fanoutRig) start() {
	t := f.t
	newest := expand.NewNewest()
	known := consumer.New(f.Kafka, "newest", schemas.Fanout, expand.DecodeJob, newest, f.Producer, f.Log, nil, consumer.WithoutGroup())
	reader := consumer.New(f.Kafka, "arrivals", schemas.Deliveries, decodeArrival, f.arrivals, f.Producer, f.Log, nil, consumer.WithoutGroup())
	t.Go(known.Run)
	t.Go(reader.Run)
	checks := []func() error{known.Ready, reader.Ready}
	var processors []*processor.Processor
	for _, name := range []string{"one", "two"} {
		config := expand.Defaults()
		config.Mode = expand.All
		cache := graph.NewCache(graph.CacheConfig{Most: config.HighFollower, IDs: config.CacheFollowers, TTL: time.Minute}, f.store, f.Log)
		t.Go(cache.Run)
		shared := f.dependencies(config, cache, newest)
		for _, role := range []struct {
			name  string
			topic schemas.Topic
			most  int
			task  func(int32) processor.Task
		}{
			{"planner", schemas.Transitions, 256, func(int32) processor.Task { return shared.NewPlanner() }},
			{"worker", schemas.Fanout, 4, func(int32) processor.Task { return shared.NewWorker() }},
		} {
			cluster := f.Kafka
			cluster.InstanceName, cluster.MaxPollRecords = name, role.most
			p := processor.New(cluster, f.Kafka.Prefix+role.name, role.topic, role.task, f.Producer, f.Log, nil)
			t.Go(p.Run)
			checks, processors = append(checks, p.Ready), append(processors, p)
		}
	}
	t.Until(func() string { return "waiting for the workers to get their partitions" }, func() bool {
		partitions := 0
		for _, p := range processors {
			partitions += len(p.Status())
		}
		return partitions == 2*int(t.Partitions) && !slices.ContainsFunc(checks, func(check func() error) bool { return check() != nil })
	})
}

// pipeline measures the way through Kafka.
func (f *fanoutRig) pipeline() {
	t := f.t
	f.start()
	idle := f.smallUsers("idle", t.Length(), func() bool { return false })
	var took, busy loadtest.Spread
	for begun := time.Now(); len(took) == 0 || time.Since(begun) < t.Length(); {
		version := f.publish(fanoutStar)
		since := time.Now()
		busy = append(busy, f.smallUsers("during an expansion", loadtest.Timeout, func() bool { return f.arrivals.count(version) >= t.Users })...)
		if n := f.arrivals.count(version); n != t.Users {
			t.Fatalf("%d of %d followers were in deliveries", n, t.Users)
		}
		took = append(took, time.Since(since))
	}
	slices.Sort(took)
	t.Add(fmt.Sprintf("%d followers of one user delivered by two workers, median", t.Users), took.At(0.5).Seconds(), "s").
		AtMost(10 * max(1, float64(t.Users)/10e6))
	quiet := t.AddSpread("change of a user with few followers to its delivery, idle", idle).P99()
	loud := t.AddSpread("the same during expansions", busy).P99()
	t.Add("p99 during expansions over idle", loud/quiet, "times").AtMost(2)
	t.Note(fmt.Sprintf("%d expansions at the default rate of a worker; %d changes a second of users with %d followers each. Planners, workers, the reader and the bench share one process.",
		len(took), time.Second/fanoutBeat, fanoutFew))
}

// smallUsers lets users with few followers change until done, for at most length, and returns
// how long each delivery took.
func (f *fanoutRig) smallUsers(what string, length time.Duration, done func() bool) (waits loadtest.Spread) {
	var versions []schemas.Version
	f.t.Every(fanoutBeat, length, func() bool {
		f.t.Progress.Say("  users with few followers, %s: %d changes", what, len(versions))
		if done() {
			return false
		}
		f.small++
		versions = append(versions, f.publish(fanoutStar+1+schemas.UserID(f.small%fanoutSmall)))
		return true
	})
	for _, v := range versions {
		// Of changes that came together only the last of a user is delivered.
		took, came := time.Duration(0), false
		f.t.Until(func() string { return fmt.Sprintf("version %d was not delivered", v) }, func() bool {
			took, came = f.arrivals.took(v)
			return came
		})
		waits = append(waits, took)
	}
	return waits
}

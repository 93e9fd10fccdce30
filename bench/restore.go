package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// replayRounds is how often everybody has beaten in the heartbeats that a restore reads
// again: online_ttl + offline_debounce + reconnect_window + gateway_silence, at a
// beat every 15 s.
const replayRounds = 6

// restore measures how long a partition's new owner takes: all users online,
// each having beaten six times in the heartbeats that have to be read
// again. The clock runs from the moment at which the loop has been given its
// partitions and makes their tasks, to the moment at which the last of them runs. How
// long the group takes to notice that an owner is gone, at most 6 s after a crash,
// comes on top.
func restore(t *loadtest.T) {
	rig := t.Rig()
	frames := crowd{Count: t.Users, Partitions: t.Partitions}.frames(false)
	settings := loadtest.Stay()
	d := rig.Detector(settings, nil)
	gather(t, rig, d, frames)
	for range replayRounds {
		writeAll(t, rig, frames)
	}
	end := end(t, rig)
	t.Until(func() string { return "handling what was written" }, func() bool { return handled(d) >= end })
	t.Check(d.Stop())
	var times restoreTimes
	ready := t.Measured(func() {
		d = rig.Detector(settings, func(t processor.Task) processor.Task { return timedTask{t, &times} })
		t.Until(func() string { return "restoring" }, d.AllRun)
	})
	t.Check(d.Stop())
	t.Add("from assignment to running, all partitions", times.last.Sub(times.first).Seconds(), "s").AtMost(max(0.5, 0.4*float64(t.Users)/1e6))
	t.Add("from the start of the process's loop to running", ready.Seconds(), "s").LessIsBetter()
	t.Add("records read again", float64(times.records), "")
	t.Note(fmt.Sprintf("%d partitions, restored at the same time.", t.Partitions))
}

// restoreTimes collects when the tasks began and ended to restore.
type restoreTimes struct {
	mu          sync.Mutex
	first, last time.Time
	records     int
}

// timedTask is a task whose restore is timed.
type timedTask struct {
	processor.Task
	times *restoreTimes
}

// Restore is the task's.
func (t timedTask) Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error {
	begun, records := time.Now(), 0
	counted := func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
		return read(ctx, topic, from, to, func(r *schemas.Record) error { records++; return each(r) })
	}
	err := t.Task.Restore(ctx, at, counted)
	t.times.mu.Lock()
	defer t.times.mu.Unlock()
	if t.times.first.IsZero() || begun.Before(t.times.first) {
		t.times.first = begun
	}
	t.times.last = time.Now()
	t.times.records += records
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// replayRounds is how often everybody has beaten in the stretch that a restore reads
// again: online_ttl + offline_debounce + reconnect_window + gateway_silence, at a
// beat every 15 s.
const replayRounds = 6

// restore measures how long a partition's new owner takes: all users online,
// each having beaten six times in the stretch of heartbeats that has to be read
// again. The clock runs from the moment at which the loop has been given its
// partitions and makes their tasks, to the moment at which the last of them runs. How
// long the group takes to notice that an owner is gone, at most 6 s after a crash,
// comes on top.
func restore(ctx context.Context, o *loadtest.Options, r *loadtest.Result) (err error) {
	rig, err := loadtest.NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	frames := loadtest.Users{Count: o.Users, Partitions: o.Partitions}.Frames(false)
	settings := loadtest.Stay()
	d := rig.Detector(ctx, settings, nil)
	if err := d.Gather(ctx, frames); err != nil {
		return errors.Join(err, d.Stop())
	}
	for range replayRounds {
		if err := rig.Write(ctx, frames); err != nil {
			return errors.Join(err, d.Stop())
		}
	}
	end, err := rig.End(ctx)
	if err == nil {
		err = o.Until(ctx, func() string { return "handling what was written" }, func() bool { return d.Handled() >= end })
	}
	if err := errors.Join(err, d.Stop()); err != nil {
		return err
	}
	var times restoreTimes
	begun := time.Now()
	d = rig.Detector(ctx, settings, func(t processor.Task) processor.Task { return timedTask{t, &times} })
	err = o.Measured(func() error {
		return o.Until(ctx, func() string { return "restoring" }, func() bool { return d.AllRun() })
	})
	ready := time.Since(begun)
	if err := errors.Join(err, d.Stop()); err != nil {
		return err
	}
	first, last, beats := times.of()
	r.Add("from assignment to running, all partitions", last.Sub(first).Seconds(), "s").AtMost(2)
	r.Add("from the start of the process's loop to running", ready.Seconds(), "s").LessIsBetter()
	r.Add("records read again", float64(beats), "")
	r.Note(fmt.Sprintf("%d partitions, restored at the same time.", o.Partitions))
	return nil
}

// restoreTimes collects when the tasks began and ended to restore.
type restoreTimes struct {
	mu          sync.Mutex
	first, last time.Time
	records     int
}

func (r *restoreTimes) of() (first, last time.Time, records int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first, r.last, r.records
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

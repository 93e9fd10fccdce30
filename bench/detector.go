package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/tools/loadtest"
)

// detector measures how fast the production loop drains the heartbeats topic:
// frames of 1,000 beats of users who are online are written beforehand, then a
// detector that has just been restored reads them through Kafka. The clock runs from
// the first record it handles after its restore to the last. The broker shares the
// machine, in a process of its own.
func (l *lab) detector(ctx context.Context, o *loadtest.Options, r *loadtest.Result) (err error) {
	rig, err := loadtest.NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	frames := loadtest.Users{Count: o.Users, Partitions: o.Partitions}.Frames(false)
	d := rig.Detector(ctx, loadtest.Stay(), nil)
	if err := d.Gather(ctx, frames); err != nil {
		return errors.Join(err, d.Stop())
	}
	if err := d.Stop(); err != nil {
		return err
	}
	from, err := rig.End(ctx)
	if err != nil {
		return err
	}
	const guess = 6_000_000 // beats a second; decides only how much is written
	begun, rounds := time.Now(), max(1, int(o.Seconds*guess)/o.Users)
	for range rounds {
		if err := rig.Write(ctx, frames); err != nil {
			return err
		}
	}
	written := time.Since(begun)
	to, err := rig.End(ctx)
	if err != nil {
		return err
	}
	took, err := drain(ctx, o, rig, from, to)
	if err != nil {
		return err
	}
	beats := float64(rounds * o.Users)
	r.Add("heartbeats from Kafka through the detector", beats/took.Seconds()/1e6, "M beats/s").AtLeast(5)
	r.Add("records", float64(to-from)/took.Seconds(), "/s")
	r.Add("heartbeats written to Kafka before", beats/written.Seconds()/1e6, "M beats/s")
	size := 0
	for i := range frames {
		size += len(frames[i].Value)
	}
	r.Add("size of a beat in a frame", float64(size)/float64(o.Users), "B").LessIsBetter()
	r.Note(fmt.Sprintf("%s beats in %d partitions, %s drained.", loadtest.Number(beats), o.Partitions, took.Round(time.Millisecond)))
	return l.referenceBeats(ctx, o, r, min(o.Users, 1_000_000))
}

// drain runs a detector until it has handled what lies between two ends of the log,
// and tells how long that took.
func drain(ctx context.Context, o *loadtest.Options, rig *loadtest.Rig, from, to int64) (took time.Duration, err error) {
	d := rig.Detector(ctx, loadtest.Stay(), nil)
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := o.Until(ctx, func() string { return "restoring" }, func() bool { return d.AllRun() && d.Handled() > from }); err != nil {
		return 0, err
	}
	first, begun := d.Handled(), time.Now()
	waiting := func() string { return fmt.Sprintf("draining: %d of %d frames", d.Handled()-from, to-from) }
	err = o.Measured(func() error { return o.Until(ctx, waiting, func() bool { return d.Handled() >= to }) })
	if err != nil {
		return 0, err
	}
	// What was handled before we looked is not counted.
	return time.Duration(float64(time.Since(begun)) * float64(to-from) / float64(max(1, to-first))), nil
}

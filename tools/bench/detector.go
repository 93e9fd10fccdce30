package bench

import (
	"context"
	"fmt"
	"time"
)

// benchDetector measures how fast the production loop drains the heartbeats topic:
// frames of 1,000 beats of users who are online are written beforehand, then a
// detector that has just been restored reads them through Kafka. The clock runs from
// the first record it handles after its restore to the last. The broker shares the
// machine, in a process of its own.
func benchDetector(ctx context.Context, o *Options, r *Result) (err error) {
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, rig.close()) }()
	frames := crowd{o.Users, o.Partitions}.frames(beatsPerFrame)
	d := rig.detector(ctx, everybody(), nil)
	if err := rig.gather(ctx, d, frames); err != nil {
		return joined(err, d.stop())
	}
	if err := d.stop(); err != nil {
		return err
	}
	from, err := rig.end(ctx)
	if err != nil {
		return err
	}
	const guess = 6_000_000 // beats a second; decides only how much is written
	begun, rounds := time.Now(), max(1, int(o.Seconds*guess)/o.Users)
	for range rounds {
		if err := rig.write(ctx, frames); err != nil {
			return err
		}
	}
	written := time.Since(begun)
	to, err := rig.end(ctx)
	if err != nil {
		return err
	}
	took, err := rig.drain(ctx, from, to)
	if err != nil {
		return err
	}
	beats := float64(rounds * o.Users)
	r.add("heartbeats from Kafka through the detector", beats/took.Seconds()/1e6, "M beats/s").atLeast(5)
	r.add("records", float64(to-from)/took.Seconds(), "/s")
	r.add("heartbeats written to Kafka before", beats/written.Seconds()/1e6, "M beats/s")
	size := 0
	for i := range frames {
		size += len(frames[i].Value)
	}
	r.add("size of a beat in a frame", float64(size)/float64(o.Users), "B").lessIsBetter()
	r.note(fmt.Sprintf("%s beats in %d partitions, %s drained.", number(beats), o.Partitions, took.Round(time.Millisecond)))
	return referenceBeats(ctx, o, r, min(o.Users, 1_000_000))
}

// drain runs a detector until it has handled what lies between two ends of the log,
// and tells how long that took.
func (r *rig) drain(ctx context.Context, from, to int64) (took time.Duration, err error) {
	d := r.detector(ctx, everybody(), nil)
	defer func() { err = joined(err, d.stop()) }()
	if err := r.o.until(ctx, func() string { return "restoring" }, func() bool { return d.ready(r) && d.handled() > from }); err != nil {
		return 0, err
	}
	first, begun := d.handled(), time.Now()
	waiting := func() string { return fmt.Sprintf("draining: %d of %d frames", d.handled()-from, to-from) }
	err = r.o.measured(func() error { return r.o.until(ctx, waiting, func() bool { return d.handled() >= to }) })
	if err != nil {
		return 0, err
	}
	// What was handled before we looked is not counted.
	return time.Duration(float64(time.Since(begun)) * float64(to-from) / float64(max(1, to-first))), nil
}

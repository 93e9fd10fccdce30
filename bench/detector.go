package main

import (
	"fmt"
	"time"

	"github.com/stillhere/stillhere/tools/loadtest"
)

// detector measures how fast the production loop drains the heartbeats topic:
// frames of 1,000 beats of users who are online are written beforehand, then a
// detector that has just been restored reads them through Kafka. The clock runs from
// the first record it handles after its restore to the last. The broker shares the
// machine, in a process of its own.
func benchDetector(t *loadtest.T) {
	rig := t.Rig()
	frames := crowd{Count: t.Users, Partitions: t.Partitions}.frames(false)
	d := rig.Detector(loadtest.Stay(), nil)
	gather(t, rig, d, frames)
	t.Check(d.Stop())
	from := end(t, rig)
	const guess = 6_000_000 // beats a second; decides only how much is written
	begun, rounds := time.Now(), max(1, int(t.Seconds*guess)/t.Users)
	for range rounds {
		writeAll(t, rig, frames)
	}
	written := time.Since(begun)
	to := end(t, rig)
	took := drain(t, rig, from, to)
	beats := float64(rounds * t.Users)
	t.Add("heartbeats from Kafka through the detector", beats/took.Seconds()/1e6, "M beats/s").AtLeast(5)
	t.Add("records", float64(to-from)/took.Seconds(), "/s")
	t.Add("heartbeats written to Kafka before", beats/written.Seconds()/1e6, "M beats/s")
	size := 0
	for i := range frames {
		size += len(frames[i].Value)
	}
	t.Add("size of a beat in a frame", float64(size)/float64(t.Users), "B").LessIsBetter()
	t.Note(fmt.Sprintf("%s beats in %d partitions, %s drained.", loadtest.Number(beats), t.Partitions, took.Round(time.Millisecond)))
}

// drain runs a detector until it has handled what lies between two ends of the log,
// and returns how long that took.
func drain(t *loadtest.T, rig *loadtest.Rig, from, to int64) time.Duration {
	d := rig.Detector(loadtest.Stay(), nil)
	t.Until(func() string { return "restoring" }, func() bool { return d.AllRun() && handled(d) > from })
	first := handled(d)
	took := t.Measured(func() {
		t.Until(func() string { return fmt.Sprintf("draining: %d of %d frames", handled(d)-from, to-from) }, func() bool { return handled(d) >= to })
	})
	// What was handled before we looked is not counted.
	return time.Duration(float64(took) * float64(to-from) / float64(max(1, to-first)))
}

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/bare"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// detector measures how fast the production loop drains the heartbeats topic, of a busy gateway, of one that sends
// 16 beats together, and of one that sends each by itself: records of users who are online are written beforehand,
// then a detector that has just been restored reads them through Kafka. The clock runs from the first record it
// handles after its restore to the last. The broker shares the machine, in a process of its own. A consumer that
// only takes the same records from Kafka shows how near the detector is to what the log can give.
func benchDetector(t *loadtest.T) {
	rig := t.Rig()
	everybody := crowd{Count: t.Users, Partitions: t.Partitions}
	d := rig.Detector(loadtest.Stay(), nil)
	gather(t, rig, d, everybody.frames(false))
	t.Check(d.Stop())
	for _, size := range []struct {
		beats   int
		guess   float64 // beats a second; decides only how much is written
		atLeast float64 // million beats a second
	}{{beatsPerFrame, 6e6, 5}, {16, 5e6, 5}, {1, 2.5e6, 2.5}} {
		from := ends(t, rig)
		frames, rounds := everybody.records(false, size.beats), max(1, int(t.Seconds*size.guess)/t.Users)
		for range rounds {
			writeAll(t, rig, frames)
		}
		to, beats, name := end(t, rig), float64(rounds*t.Users), fmt.Sprintf("%d beats a record", size.beats)
		alone := measured(t, func() { t.Check(bare.Consume(t.Context(), rig.Kafka, schemas.Heartbeats, from, to-sum(from))) })
		took := drain(t, rig, sum(from), to)
		t.Add(name+": through the detector", beats/took.Seconds()/1e6, "M beats/s").AtLeast(size.atLeast)
		t.Add("processor time, "+name, took.processor.Seconds()*1e6/beats, "µs a beat").LessIsBetter()
		t.Add(name+": through a consumer alone", beats/alone.Seconds()/1e6, "M beats/s")
		t.Add("processor time of a consumer alone, "+name, alone.processor.Seconds()*1e6/beats, "µs a beat")
		t.Note(fmt.Sprintf("%s: %s beats in %d partitions, drained in %s.", name, loadtest.Number(beats), t.Partitions, took.Round(time.Millisecond)))
	}
}

// cost is what a part took, and how much processor time of this process.
type cost struct {
	time.Duration
	processor time.Duration
}

// measured is t.Measured with the processor time.
func measured(t *loadtest.T, part func()) cost {
	used := processorTime(os.Getpid())
	took := t.Measured(part)
	return cost{took, processorTime(os.Getpid()) - used}
}

// drain runs a detector until it has handled what lies between two ends of the log,
// and returns what that cost.
func drain(t *loadtest.T, rig *loadtest.Rig, from, to int64) cost {
	d := rig.Detector(loadtest.Stay(), nil)
	t.Until(func() string { return "restoring" }, func() bool { return d.AllRun() && handled(d) > from })
	first := handled(d)
	took := measured(t, func() {
		t.Until(func() string { return fmt.Sprintf("draining: %d of %d records", handled(d)-from, to-from) }, func() bool { return handled(d) >= to })
	})
	t.Check(d.Stop())
	// What was handled before we looked is not counted.
	all := float64(to-from) / float64(max(1, to-first))
	return cost{time.Duration(float64(took.Duration) * all), time.Duration(float64(took.processor) * all)}
}

func sum(offsets map[int32]int64) (n int64) {
	for _, offset := range offsets {
		n += offset
	}
	return n
}

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
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
		bare := consume(t, rig, from, to)
		took := drain(t, rig, sum(from), to)
		t.Add(name+": through the detector", beats/took.Seconds()/1e6, "M beats/s").AtLeast(size.atLeast)
		t.Add(name+": processor", took.processor.Seconds()*1e6/beats, "µs a beat").LessIsBetter()
		t.Add(name+": through a consumer alone", beats/bare.Seconds()/1e6, "M beats/s")
		t.Add(name+": its processor", bare.processor.Seconds()*1e6/beats, "µs a beat")
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

// consume reads the same with a consumer that does nothing with it.
func consume(t *loadtest.T, rig *loadtest.Rig, from map[int32]int64, to int64) cost {
	at := map[int32]kgo.Offset{}
	for p, offset := range from {
		at[p] = kgo.NewOffset().At(offset)
	}
	config := rig.Kafka.WithDefaults()
	options, err := kafka.ClientOptions(config, rig.Log)
	t.Check(err)
	options = append(options, kafka.FetchOptions(config)...)
	client, err := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		schemas.Heartbeats.Name(rig.Kafka.Prefix): at}))...)
	t.Check(err)
	defer client.Close()
	left := to - sum(from)
	return measured(t, func() {
		for left > 0 {
			fetches := client.PollRecords(t.Context(), 100_000)
			t.Check(fetches.Err())
			left -= int64(fetches.NumRecords())
		}
	})
}

func sum(offsets map[int32]int64) (n int64) {
	for _, offset := range offsets {
		n += offset
	}
	return n
}

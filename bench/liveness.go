package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// liveness measures the state machine without Kafka: frames of 1,000 beats that lie in
// memory are decoded and applied by one goroutine, all users online with one device
// each, time going on as if each beat every 15 s. Kafka is left out.
func benchLiveness(t *loadtest.T) {
	counts := []int{1_000_000, 10_000_000}
	targets := []float64{15, 10}
	if t.Users > 0 {
		counts, targets = []int{t.Users}, []float64{0}
	}
	for i, n := range counts {
		livenessOf(t, n, targets[i])
	}
}

func livenessOf(t *loadtest.T, n int, target float64) {
	name := loadtest.Number(float64(n)) + " users, "
	c := crowd{Count: n, Partitions: 1}
	t.Progress.Say("  making the frames of %d users", n)
	frames := c.frames(false)
	heap := heapBytes()
	m := newMachine(len(frames))
	m.apply(frames)
	bytes := float64(heapBytes()-heap) / float64(n)
	rate, allocs := m.run(t, frames)
	t.Add(name+"in the order in which they came", rate/1e6, "M beats/s").AtLeast(target)
	if m.machine.Users() != n {
		t.Note(fmt.Sprintf("Only %d of %d users stayed online.", m.machine.Users(), n))
	}
	t.Add(name+"allocations", allocs, "per beat").LessIsBetter()
	t.Add(name+"memory", float64(m.machine.Bytes())/float64(n), "B/user").AtMost(48)
	t.Add(name+"memory as the heap has it", bytes, "B/user").LessIsBetter()
	rate, _ = m.run(t, c.frames(true))
	t.Add(name+"in random order", rate/1e6, "M beats/s")
}

// machine is a state machine and its log.
type machine struct {
	machine *liveness.Machine
	out     liveness.Output
	frame   schemas.Frame
	now     schemas.Millis
	offset  int64
	each    float64 // milliseconds between two frames
	part    float64 // of a millisecond that has not passed yet
}

func newMachine(frames int) *machine {
	return &machine{machine: liveness.New(liveness.Defaults(), 0, 1, 1, 0), now: schemas.MillisOf(time.Now()), each: 15_000 / float64(frames)}
}

func (m *machine) apply(frames []schemas.Outgoing) {
	for i := range frames {
		if err := m.frame.Decode(frames[i].Value); err != nil {
			panic(err) // we have written it ourselves
		}
		m.machine.Apply(m.offset, m.now, &m.frame, &m.out)
		m.out.Reset()
		m.offset++
		m.part += m.each
		m.now += schemas.Millis(m.part)
		m.part -= float64(schemas.Millis(m.part))
	}
}

// run applies the frames again and again for the time of the measurement. It returns
// beats a second and allocations a beat.
func (m *machine) run(t *loadtest.T, frames []schemas.Outgoing) (rate, allocs float64) {
	m.apply(frames) // what the first round of a new order costs is not the steady state
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	counted, begun := m.machine.Counts().Beats, time.Now()
	took := t.Measured(func() {
		for rounds := 1; time.Since(begun) < t.Length(); rounds++ {
			t.Check(t.Context().Err())
			m.apply(frames)
			t.Progress.Say("  round %d", rounds)
		}
	})
	runtime.ReadMemStats(&after)
	beats := float64(m.machine.Counts().Beats - counted)
	return beats / took.Seconds(), float64(after.Mallocs-before.Mallocs) / beats
}

// heapBytes is what the heap holds after a collection.
func heapBytes() int64 {
	runtime.GC() // what pools hold, of an earlier bench as well, is free only after the second one
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// liveness measures the state machine alone: frames of 1,000 beats that lie in
// memory are decoded and applied by one goroutine, all users online with one device
// each, time going on as if each beat every 15 s. Kafka is left out.
func (l *lab) liveness(ctx context.Context, o *loadtest.Options, r *loadtest.Result) error {
	counts := []int{1_000_000, 10_000_000}
	targets := []float64{15, 10}
	if o.Users > 0 {
		counts, targets = []int{o.Users}, []float64{0}
	}
	for i, n := range counts {
		if err := livenessOf(ctx, o, r, n, targets[i]); err != nil {
			return err
		}
	}
	return l.referenceBeats(ctx, o, r, min(counts[0], 1_000_000))
}

func livenessOf(ctx context.Context, o *loadtest.Options, r *loadtest.Result, n int, target float64) error {
	name := loadtest.Number(float64(n)) + " users, "
	c := loadtest.Users{Count: n, Partitions: 1}
	o.Progress.Say("  making the frames of %d users", n)
	frames := c.Frames(false)
	heap := heapBytes()
	m := newMachine(len(frames))
	m.apply(frames)
	bytes := float64(heapBytes()-heap) / float64(n)
	rate, allocs, err := m.run(ctx, o, frames)
	if err != nil {
		return err
	}
	r.Add(name+"in the order in which they came", rate/1e6, "M beats/s").AtLeast(target)
	if m.machine.Users() != n {
		r.Note(fmt.Sprintf("Only %d of %d users stayed online.", m.machine.Users(), n))
	}
	r.Add(name+"allocations", allocs, "per beat").LessIsBetter()
	r.Add(name+"memory", float64(m.machine.Bytes())/float64(n), "B/user").AtMost(48)
	r.Add(name+"memory as the heap has it", bytes, "B/user").LessIsBetter()
	frames = c.Frames(true)
	if rate, _, err = m.run(ctx, o, frames); err != nil {
		return err
	}
	r.Add(name+"in random order", rate/1e6, "M beats/s")
	return nil
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
		for done := m.machine.Apply(m.offset, m.now, &m.frame, &m.out); !done; {
			m.out.Reset()
			done = m.machine.Continue(&m.frame, &m.out)
		}
		m.out.Reset()
		m.offset++
		m.part += m.each
		m.now += schemas.Millis(m.part)
		m.part -= float64(schemas.Millis(m.part))
	}
}

// run applies the frames again and again for as long as it is told to. It returns
// beats a second and allocations a beat.
func (m *machine) run(ctx context.Context, o *loadtest.Options, frames []schemas.Outgoing) (rate, allocs float64, err error) {
	m.apply(frames) // what the first round of a new order costs is not the steady state
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	counted, begun := m.machine.Counts().Beats, time.Now()
	err = o.Measured(func() error {
		for rounds := 1; time.Since(begun) < o.Length() && ctx.Err() == nil; rounds++ {
			m.apply(frames)
			o.Progress.Say("  round %d", rounds)
		}
		return ctx.Err()
	})
	took := time.Since(begun).Seconds()
	runtime.ReadMemStats(&after)
	beats := float64(m.machine.Counts().Beats - counted)
	return beats / took, float64(after.Mallocs-before.Mallocs) / beats, err
}

// heapBytes is what the heap holds after a collection.
func heapBytes() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

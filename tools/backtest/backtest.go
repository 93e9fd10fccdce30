package backtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// Options say how to compare.
type Options struct {
	Policies []Policy
	// Flap: a user who left online and is back within this time has flapped.
	Flap time.Duration
	// WarmUp is how much of the beginning does not count.
	WarmUp time.Duration
	// Progress, if not nil, is called now and then with the number of records applied.
	Progress func(records int64)
}

// Run applies the recorded heartbeats to every policy.
func Run(ctx context.Context, from Source, o Options) (*Report, error) {
	if len(o.Policies) == 0 {
		return nil, errors.New("there is no policy to try")
	}
	trials := make([]*trial, len(o.Policies))
	for i, p := range o.Policies {
		trials[i] = newTrial(p, from.Partitions(), o)
	}
	r := &Report{WarmUp: o.WarmUp.Seconds(), Flap: o.Flap.Seconds()}
	var frame schemas.Frame
	err := from.Each(ctx, func(record *schemas.Record) error {
		if err := frame.Decode(record.Value); err != nil {
			r.Unreadable++
			return nil
		}
		frame.Policy = nil // the policies to try stand against what was in force
		r.Records++
		r.Beats += int64(frame.Rows())
		if r.From == 0 || record.Time < r.From {
			r.From = record.Time
		}
		r.To = max(r.To, record.Time)
		for _, t := range trials {
			t.apply(record, &frame)
		}
		if r.Records%4096 == 0 && o.Progress != nil {
			o.Progress(r.Records)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the recorded heartbeats: %w", err)
	}
	for _, t := range trials {
		r.Policies = append(r.Policies, t.outcome())
	}
	return r, nil
}

// trial is one policy under way.
type trial struct {
	policy   Policy
	flap     schemas.Millis
	warmUp   schemas.Millis
	machines []*liveness.Machine
	begun    []schemas.Millis // when the first record of a partition was written; 0: none yet
	out      liveness.Output

	o         Outcome
	left      map[schemas.UserID]schemas.Millis // when a user who was online last left
	toOffline []int32                           // milliseconds
	noticed   []int32
	load      map[int64]int32 // visible changes by second
	first     int64
	last      int64
}

func newTrial(p Policy, partitions int32, o Options) *trial {
	t := &trial{
		policy: p, flap: schemas.Millis(o.Flap.Milliseconds()), warmUp: schemas.Millis(o.WarmUp.Milliseconds()),
		begun: make([]schemas.Millis, partitions), left: map[schemas.UserID]schemas.Millis{}, load: map[int64]int32{},
		o: Outcome{Policy: p.Name, PolicyID: p.Settings.ID(), Causes: map[string]int64{}},
	}
	for id := range partitions {
		t.machines = append(t.machines, liveness.New(p.Settings, id, partitions, 1, 0))
	}
	return t
}

func (t *trial) apply(r *schemas.Record, f *schemas.Frame) {
	m := t.machines[r.Partition]
	if t.begun[r.Partition] == 0 {
		t.begun[r.Partition] = r.Time
	}
	t.out.Reset()
	if !m.Apply(r.Offset, r.Time, f, &t.out) {
		for !m.Continue(f, &t.out) {
			continue // all slices are counted together
		}
	}
	if r.Time < t.begun[r.Partition]+t.warmUp {
		return
	}
	second := int64(m.LogTime()) / 1000
	if t.first == 0 || second < t.first {
		t.first = second
	}
	t.last = max(t.last, second)
	for i := range t.out.Transitions {
		t.count(&t.out.Transitions[i], m.LogTime(), second)
	}
}

func (t *trial) count(c *schemas.Transition, noticed schemas.Millis, second int64) {
	t.o.Transitions++
	t.o.Causes[schemas.CauseWord(c.Cause)]++
	t.noticed = append(t.noticed, int32(max(0, noticed-c.At)))
	if c.Visibility != schemas.Nobody || c.Cause == schemas.VisibilityChange {
		t.o.Visible++
		t.load[second]++
	}
	switch {
	case c.From == c.To:
	case c.From == schemas.Online:
		t.left[c.User] = c.At
	case c.To == schemas.Online:
		t.o.Online++
		if left, known := t.left[c.User]; known && c.At-left <= t.flap {
			t.o.Flaps++
		}
		delete(t.left, c.User)
	}
	if c.To == schemas.Offline && c.From != c.To {
		t.o.Offline++
		if c.LastSeen > 0 {
			t.toOffline = append(t.toOffline, int32(min(c.At-c.LastSeen, 1<<31-1)))
		}
	}
	if c.To == schemas.Away && c.From != c.To {
		t.o.Away++
	}
}

// outcome is what the trial comes to.
func (t *trial) outcome() Outcome {
	t.o.TimeToOffline = spreadOf(t.toOffline)
	t.o.Noticed = spreadOf(t.noticed)
	if t.first == 0 {
		return t.o
	}
	seconds := make([]int32, t.last-t.first+1)
	for second, n := range t.load {
		seconds[second-t.first] = n
	}
	t.o.FanoutMean = float64(t.o.Visible) / float64(len(seconds))
	load := spreadOf(seconds)
	t.o.FanoutP99, t.o.FanoutPeak = load.P99, load.Max
	return t.o
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// tickInterval is that of the production loop.
const tickInterval = 250 * time.Millisecond

// silence measures how late silence is found when all users fall silent at
// once: the time of publication less the instant at which the rule says that the
// user went offline. That includes allowed_lateness (250 ms) and the wait for the
// next tick. First in the machine alone, ticked in real time; then through Kafka,
// where a transition counts as published when a consumer that reads committed has
// it.
//
// Each is done twice. As people beat: their last beats are spread over the heartbeat
// interval, so their limits are. And in one instant: all last beats, so all limits,
// are in one millisecond, which no users do but which is how the reference is
// measured.
func (l *lab) silence(ctx context.Context, o *loadtest.Options, r *loadtest.Result) error {
	if o.Length() < 60*time.Millisecond {
		return fmt.Errorf("seconds: %g is too short for a silence", o.Seconds)
	}
	reference, err := l.referenceSilence(ctx, o)
	if err != nil {
		return err
	}
	instant, interval := silentUsers{settings: leaving(o.Length())}, silentUsers{settings: leaving(o.Length())}
	if !o.Given {
		interval.settings = leaving(45 * time.Second) // online_ttl and offline_debounce of the design
	}
	interval.over = interval.settings.HeartbeatInterval
	for _, way := range []struct {
		name string
		do   func(context.Context, *loadtest.Options, silentUsers) (loadtest.Spread, error)
	}{{"machine alone", silentMachine}, {"through Kafka", silentPipeline}} {
		for _, s := range []struct {
			name string
			silentUsers
		}{{"as people beat", interval}, {"in one instant", instant}} {
			late, err := way.do(ctx, o, s.silentUsers)
			if err != nil {
				return err
			}
			p50, p99, last := r.AddSpread(way.name+", "+s.name, late)
			p99.AtMost(1000)
			p50.Against(float64(reference.At(0.5)) / 1e6)
			p99.Against(float64(reference.At(0.99)) / 1e6)
			last.Against(float64(reference.At(1)) / 1e6)
		}
	}
	r.Note(fmt.Sprintf("As people beat: offline %s after a last beat, these spread over %s. In one instant: offline %s after it.",
		interval.length(), interval.over, o.Length()))
	return nil
}

// silentUsers says when users are offline, and over how long their last beats are
// spread.
type silentUsers struct {
	settings liveness.Settings
	over     time.Duration
}

func (s silentUsers) length() time.Duration { return s.settings.OnlineTTL + s.settings.OfflineDebounce }

// silentMachine is what the machine alone takes.
func silentMachine(ctx context.Context, o *loadtest.Options, s silentUsers) (late loadtest.Spread, err error) {
	m := liveness.New(s.settings, 0, 1, 1, 0)
	var frame schemas.Frame
	var out liveness.Output
	offset := int64(0)
	apply := func(value []byte, at time.Time) {
		if err := frame.Decode(value); err != nil {
			panic(err) // we have written it ourselves
		}
		for done := m.Apply(offset, schemas.MillisOf(at), &frame, &out); ; done = m.Continue(&frame, &out) {
			published := schemas.MillisOf(time.Now())
			for i := range out.Transitions {
				if t := &out.Transitions[i]; t.To == schemas.Offline {
					late = append(late, time.Duration(published-t.At)*time.Millisecond)
				}
			}
			out.Reset()
			if done {
				break
			}
		}
		offset++
	}
	frames := loadtest.Users{Count: o.Users, Partitions: 1}.Frames(false)
	together := time.Now()
	for i := range frames {
		due := together.Add(s.over * time.Duration(i) / time.Duration(len(frames)))
		if err := loadtest.Pause(ctx, time.Until(due)); err != nil {
			return nil, err
		}
		apply(frames[i].Value, due)
	}
	tick := schemas.AppendTick(nil)
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	err = o.Measured(func() error {
		for len(late) < o.Users {
			select {
			case <-ticker.C:
				apply(tick, time.Now())
				o.Progress.Say("  machine alone: %d of %d users are offline", len(late), o.Users)
			case <-ctx.Done():
				return ctx.Err()
			}
			if time.Since(together) > s.over+s.length()+loadtest.Timeout {
				return fmt.Errorf("gave up waiting: %d of %d users were found silent", len(late), o.Users)
			}
		}
		return nil
	})
	return late, err
}

// silentPipeline is what the way through Kafka takes.
func silentPipeline(ctx context.Context, o *loadtest.Options, s silentUsers) (late loadtest.Spread, err error) {
	rig, err := loadtest.NewRig(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	d := rig.Detector(ctx, s.settings, nil)
	defer func() { err = errors.Join(err, d.Stop()) }()
	watch := &loadtest.Watcher{}
	watching := rig.Watch(ctx, watch)
	defer func() { err = errors.Join(err, watching.Stop()) }()

	frames := loadtest.Users{Count: o.Users, Partitions: o.Partitions}.Frames(false)
	if err := d.Gather(ctx, frames); err != nil {
		return nil, err
	}
	// They go on beating until the last of them is known to be online.
	for watch.Online.Load() < int64(o.Users) {
		if err := writeOver(ctx, rig, frames, s.over); err != nil {
			return nil, err
		}
		next := time.Now()
		if s.over == 0 {
			next = next.Add(s.settings.HeartbeatInterval / 2)
		}
		waiting := func() string { return fmt.Sprintf("%d of %d users are online", watch.Online.Load(), o.Users) }
		if err := o.Until(ctx, waiting, func() bool { return time.Now().After(next) || watch.Online.Load() >= int64(o.Users) }); err != nil {
			return nil, err
		}
	}
	if err := writeOver(ctx, rig, frames, s.over); err != nil {
		return nil, err
	}
	before := watch.Offline.Load() // whom a slow machine has lost on the way: not counted
	waiting := func() string { return fmt.Sprintf("%d of %d users are offline", watch.Offline.Load()-before, o.Users) }
	err = o.Measured(func() error {
		return o.Until(ctx, waiting, func() bool { return watch.Offline.Load()-before >= int64(o.Users) })
	})
	if err != nil {
		return nil, err
	}
	return watch.Late.All()[before:], nil
}

// leaving are settings under which a silent user is offline after the given time.
func leaving(after time.Duration) liveness.Settings {
	s := liveness.Defaults()
	s.OnlineTTL = (after * 2 / 3).Truncate(time.Millisecond)
	s.OfflineDebounce = after.Truncate(time.Millisecond) - s.OnlineTTL
	s.HeartbeatInterval = (s.OnlineTTL / 2).Truncate(time.Millisecond)
	s.AwayTTL = 0
	return s
}

// writeOver writes frames spread evenly over d.
func writeOver(ctx context.Context, rig *loadtest.Rig, frames []schemas.Outgoing, d time.Duration) error {
	if d == 0 {
		return rig.Write(ctx, frames)
	}
	const step = 50 * time.Millisecond
	begun, written := time.Now(), 0
	for written < len(frames) {
		next := min(len(frames), max(written+1, int(float64(len(frames))*float64(time.Since(begun)+step)/float64(d))))
		if err := rig.Write(ctx, frames[written:next]); err != nil {
			return err
		}
		written = next
		if err := loadtest.Pause(ctx, time.Until(begun.Add(d*time.Duration(written)/time.Duration(len(frames))))); err != nil {
			return err
		}
	}
	return nil
}

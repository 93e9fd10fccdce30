package main

import (
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
// next tick. First in the state machine, ticked in real time; then through Kafka,
// where a transition counts as published when a consumer that reads committed has
// it.
//
// Each is done twice. As people beat: their last beats are spread over the heartbeat
// interval, so their limits are. And in one instant: all last beats, so all limits,
// are in one millisecond, which no users do.
func silence(t *loadtest.T) {
	if t.Length() < 60*time.Millisecond {
		t.Fatalf("seconds: %g is too short for a silence", t.Seconds)
	}
	instant, interval := silentUsers{settings: leaving(t.Length())}, silentUsers{settings: leaving(t.Length())}
	if !t.Given {
		interval.settings = leaving(45 * time.Second) // online_ttl and offline_debounce of the design
	}
	interval.over = interval.settings.HeartbeatInterval
	for _, way := range []struct {
		name string
		do   func(*loadtest.T, silentUsers) loadtest.Spread
	}{{"state machine", silentMachine}, {"through Kafka", silentPipeline}} {
		for _, s := range []struct {
			name string
			silentUsers
		}{{"as people beat", interval}, {"in one instant", instant}} {
			t.Part(func() {
				t.AddSpread(way.name+", "+s.name, way.do(t, s.silentUsers)).AtMost(1000)
			})
		}
	}
	t.Note(fmt.Sprintf("As people beat: offline %s after a last beat, these spread over %s. In one instant: offline %s after it.",
		interval.length(), interval.over, t.Length()))
}

// silentUsers are when users are offline, and over how long their last beats are spread.
type silentUsers struct {
	settings liveness.Settings
	over     time.Duration
}

func (s silentUsers) length() time.Duration { return s.settings.OnlineTTL + s.settings.OfflineDebounce }

// silentMachine measures the state machine, without Kafka.
func silentMachine(t *loadtest.T, s silentUsers) (late loadtest.Spread) {
	m := liveness.New(s.settings, 0, 1, 1, 0)
	var frame schemas.Frame
	var out liveness.Output
	offset := int64(0)
	apply := func(value []byte, at time.Time) {
		if err := frame.Decode(value); err != nil {
			panic(err) // we have written it ourselves
		}
		m.Apply(offset, schemas.MillisOf(at), &frame, &out)
		published := schemas.MillisOf(time.Now())
		for i := range out.Transitions {
			if t := &out.Transitions[i]; t.To == schemas.Offline {
				late = append(late, time.Duration(published-t.At)*time.Millisecond)
			}
		}
		out.Reset()
		offset++
	}
	frames := crowd{Count: t.Users, Partitions: 1}.frames(false)
	together := time.Now()
	for i := range frames {
		due := together.Add(s.over * time.Duration(i) / time.Duration(len(frames)))
		t.Check(loadtest.Pause(t.Context(), time.Until(due)))
		apply(frames[i].Value, due)
	}
	tick := schemas.AppendTick(nil)
	t.Measured(func() {
		t.Every(tickInterval, s.over+s.length()+loadtest.Timeout, func() bool {
			apply(tick, time.Now())
			t.Progress.Say("  state machine: %d of %d users are offline", len(late), t.Users)
			return len(late) < t.Users
		})
	})
	if len(late) < t.Users {
		t.Fatalf("gave up waiting: %d of %d users were found silent", len(late), t.Users)
	}
	return late
}

// silentPipeline is what the way through Kafka takes.
func silentPipeline(t *loadtest.T, s silentUsers) loadtest.Spread {
	rig := t.Rig()
	d := rig.Detector(s.settings, nil)
	watch := rig.Watch(nil)
	frames := crowd{Count: t.Users, Partitions: t.Partitions}.frames(false)
	gather(t, rig, d, frames)
	// They go on beating until the last of them is known to be online.
	for watch.Online.Load() < int64(t.Users) {
		writeOver(t, rig, frames, s.over)
		next := time.Now()
		if s.over == 0 {
			next = next.Add(s.settings.HeartbeatInterval / 2)
		}
		t.Until(func() string { return fmt.Sprintf("%d of %d users are online", watch.Online.Load(), t.Users) },
			func() bool { return time.Now().After(next) || watch.Online.Load() >= int64(t.Users) })
	}
	writeOver(t, rig, frames, s.over)
	before := watch.Offline.Load() // whom a slow machine has lost on the way: not counted
	t.Measured(func() {
		t.Until(func() string { return fmt.Sprintf("%d of %d users are offline", watch.Offline.Load()-before, t.Users) },
			func() bool { return watch.Offline.Load()-before >= int64(t.Users) })
	})
	return watch.Late.All()[before:]
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
func writeOver(t *loadtest.T, rig *loadtest.Rig, frames []schemas.Outgoing, d time.Duration) {
	if d == 0 {
		writeAll(t, rig, frames)
		return
	}
	const step = 50 * time.Millisecond
	begun, written := time.Now(), 0
	for written < len(frames) {
		next := min(len(frames), max(written+1, int(float64(len(frames))*float64(time.Since(begun)+step)/float64(d))))
		writeAll(t, rig, frames[written:next])
		written = next
		t.Check(loadtest.Pause(t.Context(), time.Until(begun.Add(d*time.Duration(written)/time.Duration(len(frames))))))
	}
}

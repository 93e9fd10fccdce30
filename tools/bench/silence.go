package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// tickInterval is that of the production loop.
const tickInterval = 250 * time.Millisecond

// benchSilence measures how late silence is found when all users fall silent at
// once: the time of publication less the instant at which the rule says that the
// user went offline. That includes allowed_lateness (250 ms) and the wait for the
// next tick. First in the machine alone, ticked in real time; then through Kafka,
// where a transition counts as published when a consumer that reads committed has
// it.
//
// Each is done twice. As people beat: their last beats are spread over the heartbeat
// interval, so their limits are. And in one instant: all last beats, so all limits,
// are in one millisecond, which no crowd does but which is how the reference is
// measured.
func benchSilence(ctx context.Context, o *Options, r *Result) error {
	if o.length() < 60*time.Millisecond {
		return fmt.Errorf("seconds: %g is too short for a silence", o.Seconds)
	}
	reference, err := referenceSilence(ctx, o)
	if err != nil {
		return err
	}
	instant, interval := silence{settings: leaving(o.length())}, silence{settings: leaving(o.length())}
	if !o.given {
		interval.settings = leaving(45 * time.Second) // online_ttl and offline_debounce of the design
	}
	interval.over = interval.settings.HeartbeatInterval
	for _, way := range []struct {
		name string
		do   func(context.Context, *Options, silence) (spread, error)
	}{{"machine alone", silentMachine}, {"through Kafka", silentPipeline}} {
		for _, s := range []struct {
			name string
			silence
		}{{"as people beat", interval}, {"in one instant", instant}} {
			late, err := way.do(ctx, o, s.silence)
			if err != nil {
				return err
			}
			p50, p99, last := r.addSpread(way.name+", "+s.name, late)
			p99.atMost(1000)
			p50.against(float64(reference.at(0.5)) / 1e6)
			p99.against(float64(reference.at(0.99)) / 1e6)
			last.against(float64(reference.at(1)) / 1e6)
		}
	}
	r.note(fmt.Sprintf("As people beat: offline %s after a last beat, these spread over %s. In one instant: offline %s after it.",
		interval.length(), interval.over, o.length()))
	return nil
}

// silence says when users are offline, and over how long their last beats are
// spread.
type silence struct {
	settings liveness.Settings
	over     time.Duration
}

func (s silence) length() time.Duration { return s.settings.OnlineTTL + s.settings.OfflineDebounce }

// silentMachine is what the machine alone takes.
func silentMachine(ctx context.Context, o *Options, s silence) (late spread, err error) {
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
	frames := crowd{o.Users, 1}.frames(beatsPerFrame)
	together := time.Now()
	for i := range frames {
		due := together.Add(s.over * time.Duration(i) / time.Duration(len(frames)))
		if err := pause(ctx, time.Until(due)); err != nil {
			return nil, err
		}
		apply(frames[i].Value, due)
	}
	tick := schemas.AppendTick(nil)
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	err = o.measured(func() error {
		for len(late) < o.Users {
			select {
			case <-ticker.C:
				apply(tick, time.Now())
				o.Progress.Say("  machine alone: %d of %d users are offline", len(late), o.Users)
			case <-ctx.Done():
				return ctx.Err()
			}
			if time.Since(together) > s.over+s.length()+patience {
				return fmt.Errorf("gave up waiting: %d of %d users were found silent", len(late), o.Users)
			}
		}
		return nil
	})
	return late, err
}

// pause waits, but not beyond the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silentPipeline is what the way through Kafka takes.
func silentPipeline(ctx context.Context, o *Options, s silence) (late spread, err error) {
	rig, err := newRig(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = joined(err, rig.close()) }()
	d := rig.detector(ctx, s.settings, nil)
	defer func() { err = joined(err, d.stop()) }()
	watch := &watcher{}
	watching := rig.watch(ctx, watch)
	defer func() { err = joined(err, watching.stop()) }()

	frames := crowd{o.Users, o.Partitions}.frames(beatsPerFrame)
	if err := rig.gather(ctx, d, frames); err != nil {
		return nil, err
	}
	// They go on beating until the last of them is known to be online.
	for watch.online.Load() < int64(o.Users) {
		if err := rig.writeOver(ctx, frames, s.over); err != nil {
			return nil, err
		}
		next := time.Now()
		if s.over == 0 {
			next = next.Add(s.settings.HeartbeatInterval / 2)
		}
		waiting := func() string { return fmt.Sprintf("%d of %d users are online", watch.online.Load(), o.Users) }
		if err := o.until(ctx, waiting, func() bool { return time.Now().After(next) || watch.online.Load() >= int64(o.Users) }); err != nil {
			return nil, err
		}
	}
	if err := rig.writeOver(ctx, frames, s.over); err != nil {
		return nil, err
	}
	before := watch.offline.Load() // whom a slow machine has lost on the way: not counted
	waiting := func() string { return fmt.Sprintf("%d of %d users are offline", watch.offline.Load()-before, o.Users) }
	err = o.measured(func() error {
		return o.until(ctx, waiting, func() bool { return watch.offline.Load()-before >= int64(o.Users) })
	})
	if err != nil {
		return nil, err
	}
	return watch.take(int(before)), nil
}

// watcher is a consumer of transitions that reads committed. Its figures are those
// of all partitions, whose handlers run at the same time.
type watcher struct {
	online, offline atomic.Int64
	late            lockedSpread
	seen            func(*schemas.Transition, time.Time) // may be nil
}

// watch starts it.
func (r *rig) watch(ctx context.Context, w *watcher) *loop {
	f := kafka.Follow(r.kafka, r.kafka.Prefix+"watch", schemas.Transitions, schemas.DecodeLoggedTransition, w, r.producer,
		slog.New(slog.DiscardHandler), nil, kafka.Alone())
	return start(ctx, f.Run)
}

// Apply notes what has been published.
func (w *watcher) Apply(_ context.Context, batch schemas.Batch[schemas.Logged[*schemas.Transition]]) error {
	now := time.Now()
	var late spread
	var online int64
	for _, l := range batch.Items {
		switch l.Message.To {
		case schemas.Online:
			online++
		case schemas.Offline:
			late = append(late, now.Sub(l.Message.At.Time()))
		}
		if w.seen != nil {
			w.seen(l.Message, now)
		}
	}
	w.late.add(late)
	w.online.Add(online)
	w.offline.Add(int64(len(late)))
	return nil
}

// take are the times noted, without the first ones.
func (w *watcher) take(without int) spread { return w.late.all()[without:] }

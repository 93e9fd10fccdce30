package liveness

import (
	"fmt"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/schemas"
)

func (w *world) through(gateway string, epoch schemas.Millis, beats ...schemas.Beat) {
	w.record(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: schemas.GatewayID(gateway), GatewayEpoch: epoch}, beats))
}

// The timers of a machine that was restored are as of its state. They are so of one that was not, too, where instants
// have moved: each case gives the records at which user 1 changes, with a restore and without.
func TestInstantsThatMoveLeaveNoTimerTooLate(t *testing.T) {
	t.Parallel()
	again := func(w *world, restore bool, next []byte) (changes string) {
		if restore {
			var c snapshot.Codec
			w.m.Walk(&c)
			w.m = New(Defaults(), 0, 1, 1, 0)
			w.m.Walk(&snapshot.Codec{Reading: true, Bytes: c.Bytes})
		}
		record := 0 // those before count as one
		for end := w.now + 600_000; w.now < end; record++ {
			for _, t := range w.out.Transitions {
				if t.User == 1 {
					changes += fmt.Sprintln(record, t.From, t.To, t.At-start, t.Cause)
				}
			}
			w.out.Reset()
			w.now += 250
			w.record(next)
		}
		return changes
	}
	for name, changes := range map[string]func(t *testing.T, restore bool) string{
		"more gaps than are kept, within one limit": func(t *testing.T, restore bool) string {
			p := Defaults()
			p.AwayTTL = 30 * time.Minute
			w := newWorld(t, p)
			w.beats(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile})
			for range maxFrozen + 10 {
				w.now += 600_000
				w.record(schemas.AppendTick(nil))
			}
			return again(w, restore, schemas.AppendTick(nil))
		},
		"a beat of somebody idle through a gateway that drains": func(t *testing.T, restore bool) string {
			p := Defaults()
			p.IdleAfter = p.OnlineTTL + p.OfflineDebounce + 10*time.Second
			w := newWorld(t, p)
			beat := func(after, idle schemas.Millis) {
				w.now += after
				w.through("drains", 1, schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile, Idle: idle})
			}
			head := schemas.FrameHead{Gateway: "drains", GatewayEpoch: 1, Draining: true}
			drains := schemas.AppendFrame(nil, head, nil)
			upTo := func(after schemas.Millis) {
				for ; w.now < start+after; w.now += 100 {
					w.record(drains)
				}
			}
			beat(0, 0)
			upTo(44_900)
			beat(0, 0)
			upTo(45_400)    // the timer of the first beat is set again, for when the user is unsure
			beat(0, 10_000) // and idle before that
			return again(w, restore, drains)
		},
		"a policy that shortens the breaker's stop": func(t *testing.T, restore bool) string {
			p := Defaults()
			p.OnlineTTL, p.HeartbeatInterval, p.HeartbeatJitter = 30*time.Second, time.Second, 0
			p.OfflineDebounce, p.AwayTTL, p.AllowedLateness = 0, 0, 0
			p.GatewaySilence, p.ReconnectWindow = 20*time.Second, time.Minute
			p.BreakerPercent, p.BreakerLimit = 10, time.Minute
			w := newWorld(t, p)
			for g := range schemas.UserID(4) {
				var many []schemas.Beat
				for i := range schemas.UserID(40) {
					many = append(many, schemas.Beat{User: 100*(g+1) + i, Device: 1, Kind: schemas.Web})
				}
				w.through(fmt.Sprint("lost-", g), 1, many...)
			}
			other := schemas.Beat{User: 2, Device: 8, Kind: schemas.Mobile}
			w.now += 1000
			w.through("left", 1, schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile, Idle: 5000})
			w.record(schemas.AppendVisibility(nil, 1, schemas.Nobody))
			for w.m.Stopped() == 0 {
				w.now += 250
				w.through("left", 1, other)
			}
			upTo := func(at schemas.Millis) {
				for epoch := schemas.Millis(1); w.now < at; w.now += 1000 {
					if w.now >= w.m.Stopped()+20_000 {
						epoch = 2
					}
					w.through("left", epoch, other)
				}
			}
			stopped := w.m.Stopped()
			upTo(stopped + 30_000)
			p.IdleAfter = 2 * time.Second
			w.record(schemas.AppendPolicy(nil, p))
			upTo(stopped + 32_000)
			p.BreakerLimit = 5 * time.Second
			w.record(schemas.AppendPolicy(nil, p))
			w.now += 1000
			w.record(schemas.AppendTick(nil))
			return again(w, restore, schemas.AppendTick(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if a, b := changes(t, false), changes(t, true); a == "" || a != b {
				t.Errorf("user 1 changes so:\n%s\nafter a restore so:\n%s", a, b)
			}
		})
	}
}

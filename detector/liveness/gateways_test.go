package liveness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Whoever has the key of one gateway names ever new epochs, or drains and beats in turns, each time for another user.
func TestOneGatewayDoesNotTakeThePlacesOfOthers(t *testing.T) {
	for name, head := range map[string]func(i int) schemas.FrameHead{
		"ever newer epochs": func(i int) schemas.FrameHead { return schemas.FrameHead{GatewayEpoch: schemas.Millis(1 + i)} },
		"ever older epochs": func(i int) schemas.FrameHead { return schemas.FrameHead{GatewayEpoch: schemas.Millis(1_000_000 - i)} },
		"forwarded epochs": func(i int) schemas.FrameHead {
			return schemas.FrameHead{GatewayEpoch: schemas.Millis(1 + i), Forwarded: true}
		},
		"drains": func(i int) schemas.FrameHead { return schemas.FrameHead{GatewayEpoch: 1, Draining: i%2 == 0} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Defaults())
			const frames = 3000
			for i := range frames {
				h := head(i)
				h.Gateway = "evil"
				w.now += 10
				w.record(schemas.AppendFrame(nil, h, []schemas.Beat{{User: schemas.UserID(1 + i), Device: 1, Kind: schemas.Mobile}}))
				if i%25 == 0 {
					w.record(schemas.AppendTick(nil))
				}
			}
			g := &w.m.gateways
			if n := len(g.lives) - len(g.free); n > 40 {
				t.Errorf("one gateway has %d lives after 30 s", n)
			}
			if known := g.known["evil"]; len(known.epochs) > 2*maxEpochs {
				t.Errorf("%d epochs of one gateway are known", len(known.epochs))
			}
			w.until(w.now + 200_000)
			if len(g.known) != 0 {
				t.Errorf("%d gateways are known after a silence", len(g.known))
			}
		})
	}
}

func TestAProcessWithALeaseIsLostWhenALaterOneComesAndSilentAfterItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Defaults())
	w.through("g", start, schemas.Beat{User: 1, Device: 7, Kind: schemas.Web, Connection: 1})
	for epoch := range schemas.Millis(2) {
		w.record(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: start + epoch, Leased: true}, nil))
		w.until(w.now + 60_000)
	}
	w.record(schemas.AppendVisibility(nil, 1, schemas.Nobody))
	w.record(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: start, LeaseEnded: 4000}, nil))
	w.until(start + 127_000)
	l, hidden := &w.m.gateways.lives[firstLife], &w.out.Transitions[1]
	if l.end != outlived || l.lostAt != start+60_000 || l.closedAt != start+126_000 || hidden.LastSeen != start+119_750 {
		t.Errorf("the first life is %+v, and its user was last seen at %d when hidden", l, hidden.LastSeen-start)
	}
}

func TestAGatewayThatIsHeardAgainWithinTheReconnectWindowHasNotBeenLost(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.IdleAfter = 5 * time.Second
	w := gatewayWorld{newWorld(t, settings)}
	w.through("g", start, schemas.Beat{User: 2, Device: 8, Kind: schemas.Web, Idle: 60_000})
	w.opened(20) // of user 1, who uses it
	w.until(start + 50_000)
	w.rows()
	w.until(start + 55_000)
	w.through("g", start, schemas.Beat{User: 3, Device: 9, Kind: schemas.Web, Idle: 60_000, Age: 6_000})
	w.alive(100)
	var unsure []string
	for _, s := range w.out.Statuses {
		if s.UnsureSince != 0 || s.UnsureEnded {
			unsure = append(unsure, fmt.Sprintf("%d %d", s.User, max(0, s.UnsureSince-start)))
		}
	}
	if got := strings.Join(unsure, ", "); got != "1 30000, 2 30000, 1 0, 2 0" {
		t.Errorf("the statuses with and after unsure_since are %s", got)
	}
	if w.changes() != "away 0 first_beat, online 0 first_beat, away 49 first_beat, away 81 devices, away 124 devices" {
		t.Errorf("users 1 to 3 are %s", w.changes())
	}
}

// A policy that changes nothing of gateways makes planned devices of a lost one active again.
func TestAPolicyMakesNoDeviceOfALostGatewayActive(t *testing.T) {
	t.Parallel()
	p := Defaults()
	p.IdleAfter, p.CohortRate, p.BreakerPercent, p.AllowedLateness = time.Minute, 1, 0, 2*time.Second
	w := newWorld(t, p)
	rows := make([]schemas.Beat, 300)
	for i := range rows {
		rows[i] = schemas.Beat{User: schemas.UserID(i + 1), Device: 1, Kind: schemas.Web, Connection: 1}
	}
	w.through("g", start, rows...)
	beats := func(device schemas.DeviceID, age schemas.Millis) {
		for i := range rows {
			rows[i] = schemas.Beat{User: schemas.UserID(i + 1), Device: device, Kind: schemas.Mobile, Age: age}
		}
		w.beats(rows...)
	}
	for range 10 {
		beats(2, 0)
		w.until(w.now + 15_000)
	}
	before := len(w.out.Transitions)
	p.MaxDevices++
	w.now += 250
	w.record(schemas.AppendPolicy(nil, p))
	beats(3, 1000)
	for _, tr := range w.out.Transitions[before:] {
		t.Fatalf("user %d changes at %d s: %+v", tr.User, (tr.At-start)/1000, tr)
	}
}

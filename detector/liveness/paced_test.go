package liveness

import (
	"fmt"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// keepsRate checks that all of these users went away, and that no second has many more than rate of them.
func (w *world) keepsRate(users, rate int) {
	w.t.Helper()
	perSecond, gone := map[schemas.Millis]int{}, 0
	for _, tr := range w.taken() {
		if tr.To == schemas.Away {
			perSecond[(tr.At-start)/1000]++
			gone++
		}
	}
	for second, n := range perSecond {
		if n > rate+rate/2 {
			w.t.Errorf("in second %d %d users went, the rate is %d", second, n, rate)
		}
	}
	if gone != users {
		w.t.Errorf("%d users went, must be %d", gone, users)
	}
}

func TestAShorterWindowKeepsTheRate(t *testing.T) {
	p := Defaults()
	p.BreakerPercent, p.CohortRate, p.ReconnectWindow = 0, 100, 60*time.Second
	w := newWorld(t, p)
	w.crowd("dies", 0, 5000)
	w.until(start + 65_000)
	w.taken()
	p.ReconnectWindow = 5 * time.Second
	w.record(schemas.AppendPolicy(nil, p))
	w.until(start + 180_000)
	w.keepsRate(5000, 100)
}

func TestDevicesThatComeToAGatewayAfterItsDrainBeganKeepTheRate(t *testing.T) {
	p := Defaults()
	p.BreakerPercent, p.CohortRate = 0, 100
	w := newWorld(t, p)
	for range 11 {
		w.drain("drains", 0, 1)
		w.until(w.now + 4000)
	}
	w.drain("drains", 0, 4000)
	w.taken()
	w.until(start + 300_000)
	w.keepsRate(4000, 100)
}

func TestARollingRestartDelaysNobodyWhoStaysAway(t *testing.T) {
	const gateways, each, away = 20, 2000, 20 * 2000
	p := Defaults()
	p.BreakerPercent, p.CohortRate = 0, 100
	w := newWorld(t, p)
	for g := range gateways {
		w.crowd(fmt.Sprint("gw-", g), g*each, (g+1)*each)
	}
	w.taken()
	var last schemas.Millis // beat of the user who stays away
	for k := range 90 {     // a gateway drains every 5 s, and keeps its connections for 40 s
		for g := range gateways {
			switch since := (k - g) * 5; {
			case since < 0:
				w.crowd(fmt.Sprint("gw-", g), g*each, (g+1)*each)
			case since < 40:
				w.drain(fmt.Sprint("gw-", g), g*each, (g+1)*each)
				last = w.now
			default:
				w.crowd("lives", g*each, min((g+1)*each, away-1))
			}
		}
		w.until(w.now + 5000)
	}
	got := w.taken()
	if len(got) == 0 || got[0].User != away || got[0].To != schemas.Away || got[0].At-last > 76_000 {
		t.Fatalf("the last beat was at %d, the first transitions are %+v", last-start, got[:min(3, len(got))])
	}
}

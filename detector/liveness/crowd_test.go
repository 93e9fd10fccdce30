package liveness

import (
	"fmt"
	"math"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// crowd writes beats of the users from+1 to to through a gateway, 1,000 a frame.
func (w *world) crowd(gateway string, from, to int) { w.crowds(gateway, from, to, false) }

// drain is crowd through a gateway that drains.
func (w *world) drain(gateway string, from, to int) { w.crowds(gateway, from, to, true) }

func (w *world) crowds(gateway string, from, to int, draining bool) {
	head := schemas.FrameHead{Gateway: schemas.GatewayID(gateway), GatewayEpoch: 1, Draining: draining}
	for first := from; first < to; first += 1000 {
		rows := make([]schemas.Beat, min(1000, to-first))
		for i := range rows {
			rows[i] = schemas.Beat{User: schemas.UserID(first + i + 1), Device: 1, Kind: schemas.Mobile}
		}
		w.record(schemas.AppendFrame(nil, head, rows))
	}
}

// taken gives the transitions so far and forgets them.
func (w *world) taken() []schemas.Transition {
	all := append([]schemas.Transition(nil), w.out.Transitions...)
	w.out.Transitions = w.out.Transitions[:0]
	return all
}

// paced checks that these users, and no others, went away as lost with their gateway, once, at so many a second on
// average. Their instants are random, so those of a second vary by the root of rate: five times that is the bound.
func paced(t *testing.T, got []schemas.Transition, users, rate int) {
	t.Helper()
	perSecond, seen := map[schemas.Millis]int{}, map[schemas.UserID]bool{}
	for i := range got {
		if tr := &got[i]; tr.To != schemas.Away || tr.Cause != schemas.GatewayLost || seen[tr.User] {
			t.Fatalf("user %d went from %v to %v, %v, a second time %t", tr.User, tr.From, tr.To, tr.Cause, seen[tr.User])
		}
		seen[got[i].User] = true
		perSecond[(got[i].At-start)/1000]++
	}
	if len(got) != users {
		t.Fatalf("%d users went, must be %d", len(got), users)
	}
	full, varies := 0, int(5*math.Sqrt(float64(rate)))
	for second, n := range perSecond {
		if n > rate+varies {
			t.Errorf("in second %d %d users went", second, n)
		}
		if n >= rate-varies {
			full++
		}
	}
	for second := range perSecond {
		ten := 0
		for after := range schemas.Millis(10) {
			ten += perSecond[second+after]
		}
		if ten > 10*rate*105/100 {
			t.Errorf("in ten seconds from %d on %d users went, must be the rate within 5%%", second, ten)
		}
	}
	if full < users/rate-2 {
		t.Errorf("only %d seconds were full, with %d users", full, users)
	}
}

func TestOfAGatewayWith100000UsersThatCrashesOnlyThoseWhoStayAwayArePublished(t *testing.T) {
	const users, gone = 100_000, 1000
	w := newWorld(t, Defaults())
	w.crowd("dies", 0, users)
	w.taken()
	w.until(start + 20_000)
	for first := gone; first < users; first += users / 100 { // they come back within 25 s of its loss
		w.crowd("lives", first, min(users, first+users/100))
		w.until(w.now + 250)
	}
	w.crowd("lives", gone, users)
	w.until(start + 74_000)
	w.crowd("lives", gone, users)
	if early := w.taken(); len(early) > 0 {
		t.Fatalf("%d transitions before anybody's time was over", len(early))
	}
	w.until(start + 90_000) // at the end of the window a fifth were still away: 20,000 at 2,000 a second
	paced(t, w.taken(), gone, Defaults().CohortRate)
	w.until(start + 110_000)
	ends := 0
	for _, end := range w.out.Gateways {
		if end.Gateway == "dies" {
			ends++
			if end.Returned != users-gone || end.Released != gone {
				t.Errorf("the summary says that %d came back and %d did not", end.Returned, end.Released)
			}
		}
	}
	if ends != 1 {
		t.Errorf("%d summaries, must be one", ends)
	}
}

func TestTwentyGatewaysThatDieAtOnceShareOneRate(t *testing.T) {
	const gateways, users = 20, 30_000
	policy := Defaults()
	policy.BreakerPercent = 0
	w := newWorld(t, policy)
	for g := range gateways {
		w.crowd(fmt.Sprint("gw-", g), g*users/gateways, (g+1)*users/gateways)
	}
	w.taken()
	w.until(start + 140_000)
	paced(t, w.taken(), users, Defaults().CohortRate)
	if n := len(w.out.Gateways); n != gateways {
		t.Errorf("%d summaries, must be %d", n, gateways)
	}
}

func TestAUserWhoFlapsForADayIsOneOnline(t *testing.T) {
	w := newWorld(t, Defaults())
	random := uint64(1)
	for w.now < start+24*3600*1000 {
		random = random*6364136223846793005 + 1442695040888963407
		for next := w.now + 1000 + schemas.Millis(random>>33)%39_000; w.now < next; {
			w.now = min(next, w.now+4000)
			w.record(schemas.AppendTick(nil))
		}
		w.beats(schemas.Beat{User: 1, Device: schemas.DeviceID(1 + random>>62), Kind: schemas.Web})
	}
	if got := w.taken(); len(got) != 1 || got[0].To != schemas.Online {
		t.Errorf("%d transitions of a user who was never gone for longer than 40 s", len(got))
	}
}

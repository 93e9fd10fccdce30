package live_test

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// Scenarios 34 and 35.
func TestAHiddenUserIsClearedOnceAndThenUnseenUntilVisible(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		anna, ben := &person{id: 1}, &person{id: 2}
		g.happen(anna.becomes(schemas.Online))
		p := g.dial()
		p.watch(1, 2)

		g.happen(anna.hides(true))
		cleared := p.expect(watch.Change).User
		sameJSON(t, cleared, g.view.one(t, 1))
		if cleared.State != nil || cleared.LastSeenAt != 0 || cleared.LastActiveAt != 0 || cleared.Devices != nil || cleared.Since != 0 {
			t.Fatalf("the clearing message shows %+v", cleared)
		}
		for range 5 {
			g.happen(anna.flips(4)...)
		}
		g.happen(ben.becomes(schemas.Online))
		if m := p.expect(watch.Change); m.User.UserID != "2" {
			t.Fatalf("of a hidden user came %+v", m.User)
		}
		sameJSON(t, g.dial().watch(1)[0], cleared) // the same for whoever comes later

		g.happen(anna.hides(false))
		shown := *p.expect(watch.Change).User
		sameJSON(t, shown, g.view.one(t, 1))
		// Nothing comes out of when the user hid.
		if show := g.view.users[1]; shown.Since != show.Since || shown.LastSeenAt != shown.Since || shown.LastActiveAt != shown.Since {
			t.Fatalf("the times of %+v do not begin at the show", shown)
		}
		g.happen(anna.becomes(schemas.Away))
		sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 1))
	})
}

func TestAShowThatChangesTheStateNeedsNoCorrection(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1, hidden: true}
	g.happen(anna.hides(true))
	p := g.dial()
	if u := p.watch(1)[0]; u.State != nil {
		t.Fatalf("%+v", u)
	}
	g.happen(anna.hides(false), anna.becomes(schemas.Online))
	p.expect(watch.Change)
	sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 1))
}

// Scenario 36, and a projector that has not heard of the hide yet.
func TestNothingAfterHidingIsSentEvenIfTheViewIsBehind(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		anna := &person{id: 1}
		on := anna.becomes(schemas.Online)
		g.happen(on)
		hide := anna.hides(true)
		beat := anna.becomes(schemas.Away) // in the same instant, later in the log
		g.publish(hide, beat)              // the view still has her online
		if u := g.dial().watch(1)[0]; u.State != nil || u.Version != hide.Version.String() {
			t.Fatalf("a new viewer is told %+v", u)
		}
		// The loop restarts and delivers everything again.
		g.publish(on, hide, beat)
		p := g.dial()
		if u := p.watch(1)[0]; u.State != nil {
			t.Fatalf("after redelivery: %+v", u)
		}
		g.view.apply(hide, beat)
		r.Cut()
		g.awaitConnected()
		g.happen((&person{id: 2}).becomes(schemas.Online))
		if users := p.watch(2); stateOf(users[0]) != "online" { // nothing came of 1 in between
			t.Fatalf("%+v", users)
		}
	})
}

func TestAChangePublishedBeforeTheViewHasItIsInTheSnapshot(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		anna := &person{id: 1}
		ts := []*schemas.Transition{anna.becomes(schemas.Online), anna.becomes(schemas.Online), anna.becomes(schemas.Away)}
		g.publish(ts[:2]...)
		u := g.dial().watch(1)[0]
		if stateOf(u) != "online" || u.Version != "2" || u.Since != ts[0].At {
			t.Fatalf("%+v", u)
		}
	})
}

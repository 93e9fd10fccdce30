package live_test

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestViewersGetAResyncWhenAUserBecomesUnsureAndWhenThatEnds(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	p, q := g.dial(), g.dial()
	version := p.watch(1, 2)[0].Version
	q.watch(1)
	for _, since := range []schemas.Millis{1_763_700_000_000, 0} {
		g.view.makeUnsure(1, since)
		must.Do(t, g.bus.Reread(t.Context(), []schemas.UserID{3, 1}))
		for _, peer := range []*peer{p, q} {
			users := peer.expect(watch.Resync).Users
			if len(users) != 1 || users[0].UserID != "1" || users[0].UnsureSince != since || users[0].Version != version {
				t.Errorf("got %+v, want user 1 unsure since %d with version %s", users, since, version)
			}
		}
	}
	g.happen(anna.becomes(schemas.Away)) // and nothing before it
	sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 1))
}

func TestAUserWhoseBeginOfBeingUnsureWasLostOnTheChannelIsFoundByTheComparison(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), comparing)
	g.happen((&person{id: 1}).becomes(schemas.Online))
	p := g.dial()
	p.watch(1)
	g.view.makeUnsure(1, 1_763_700_000_000)
	if users := p.expect(watch.Resync).Users; len(users) != 1 || users[0].UnsureSince == 0 {
		t.Errorf("got %+v", users)
	}
}

// The change and the status that says so come by two topics.
func TestAUserWhoChangesAndStaysUnsureIsShownAsUnsureInWhateverOrderThatComes(t *testing.T) {
	t.Parallel()
	const since = 1_763_700_000_000
	for name, before := range map[string]bool{"reread before the change": true, "unsure before the change": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, redistest.Mini(t))
			anna := &person{id: 63} // the comparison comes to it last
			g.happen(anna.becomes(schemas.Online))
			p := g.dial()
			p.watch(63)
			g.view.makeUnsure(63, since)
			away := anna.becomes(schemas.Away)
			if before {
				g.view.apply(away)
			}
			must.Do(t, g.bus.Reread(t.Context(), []schemas.UserID{63}))
			if !before {
				p.expect(watch.Resync)
				g.view.apply(away)
			}
			g.publish(away)
			for user := p.news(); stateOf(user) != "away" || user.UnsureSince != since; user = p.news() {
				if stateOf(user) == "away" && user.UnsureSince != 0 {
					t.Fatalf("got %+v", user)
				}
			}
		})
	}
}

func TestAResumeSendsAgainUsersWhoAreStaleOrUnsureAndNoOthers(t *testing.T) {
	t.Parallel()
	r := newResumable(t)
	r.happens((&person{id: 1}).becomes(schemas.Online))
	next, leave := r.events("1", "")
	next(watch.Hello)
	_, id := next(watch.Snapshot)
	leave()
	for _, is := range []struct{ stale, unsure schemas.Millis }{{}, {stale: 1_763_700_000_000}, {unsure: 1_763_700_000_000}} {
		r.view.set(is.stale, nil)
		r.view.makeUnsure(1, is.unsure)
		next, leave := r.events("1", id)
		next(watch.Hello)
		if is.stale != 0 || is.unsure != 0 {
			if m, _ := next(watch.Resync); len(m.Users) != 1 || m.Users[0].StaleSince != is.stale || m.Users[0].UnsureSince != is.unsure {
				t.Errorf("got %+v, want %+v", m.Users, is)
			}
		}
		next(watch.Resumed)
		leave()
	}
}

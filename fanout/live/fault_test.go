package live_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestALostRedisConnectionIsMadeGoodByAResync(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		anna, ben := &person{id: 1}, &person{id: 2}
		g.happen(anna.becomes(schemas.Online), ben.becomes(schemas.Online))
		p := g.dial()
		p.watch(1, 2, 3)
		for range 5 {
			reread := valueOf(g.metrics.Reread)
			r.Down()
			g.view.apply(anna.becomes(schemas.Away), anna.becomes(schemas.Offline)) // lost on the channel
			r.Up()
			g.awaitConnected()
			m := p.expect(watch.Resync)
			sameJSON(t, m.Users, []schemas.Presence{g.view.one(t, 1)}) // only what differs
			g.await(func() bool { return valueOf(g.metrics.Reread) > reread }, func() string { return "nobody was read again" })
			g.happen(ben.becomes(schemas.Away))
			sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 2))
		}
	})
}

func TestVersionsOnlyGrowHoweverOftenTheConnectionIsCut(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		const changes = 600
		p := g.dial()
		p.watch(1)
		ts := (&person{id: 1}).flips(changes)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i, one := range ts {
				if i%30 == 0 {
					r.Cut()
				}
				g.publish(one)
				g.view.apply(one)
			}
		}()
		last := 0
		for last < changes {
			m := p.next()
			users := m.Users
			if m.Type == watch.Change {
				users = []schemas.User{*m.User}
			}
			for _, u := range users {
				v, _ := strconv.Atoi(u.Version)
				if v < last || v == last && m.Type == watch.Change {
					t.Fatalf("%s with version %d after %d", m.Type, v, last)
				}
				last = v
			}
		}
		<-done
	})
}

// Changes that the channel lost while it was away are never skipped in silence: the user's next message
// is a resync. That holds also if `lastseen` is behind by more than RecentFor, so that the read after the loss
// lacks what was swallowed.
func TestWhatALostConnectionSwallowedIsMarkedByAResync(t *testing.T) {
	t.Parallel()
	for _, stale := range []bool{false, true} {
		t.Run(fmt.Sprint("stale=", stale), func(t *testing.T) {
			redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) { loseChanges(t, r, stale) })
		})
	}
}

func loseChanges(t *testing.T, r *redistest.Server, stale bool) {
	const users, rounds = 300, 100
	g := newRig(t, r, func(c *fanout.Config) {
		c.QueueLength = users * rounds // so that nothing collapses
		if stale {
			c.RecentFor = time.Millisecond
		}
	})
	if stale {
		g.view.set(12345, nil)
	}
	p := g.dial()
	people, ids := make([]*person, users), make([]schemas.UserID, users)
	for i := range people {
		ids[i] = schemas.UserID(i + 1)
		people[i] = &person{id: ids[i]}
	}
	p.watch(ids...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []*schemas.Transition
		for round := range rounds {
			if round%5 == 2 {
				r.Cut()
			}
			ts := make([]*schemas.Transition, 0, users)
			for _, one := range people {
				ts = append(ts, one.flips(1)...)
			}
			if all = append(all, ts...); !stale {
				g.view.apply(ts...)
			}
			g.publish(ts...)
		}
		g.view.apply(all...)
		g.view.set(0, nil)
	}()
	last, left := map[string]int{}, users
	for left > 0 {
		m := p.next()
		users := m.Users
		if m.Type == watch.Change {
			users = []schemas.User{*m.User}
		}
		for _, u := range users {
			v, _ := strconv.Atoi(u.Version)
			if m.Type == watch.Change && v != last[u.UserID]+1 {
				t.Fatalf("a change of user %s has version %d after %d", u.UserID, v, last[u.UserID])
			}
			if v == rounds && last[u.UserID] < v {
				left--
			}
			last[u.UserID] = v
		}
	}
	<-done
}

// Scenario 33.
func TestAStaleStateIsSaidAndPutRightWhenItIsFresh(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	g.view.set(12345, nil)
	p := g.dial()
	users := p.watch(1, 2)
	if stateOf(users[0]) != "online" || users[0].StaleSince != 12345 || users[1].StaleSince != 12345 {
		t.Fatalf("%+v", users)
	}
	g.view.set(0, nil)
	seen := map[string]bool{}
	for len(seen) < 2 {
		for _, u := range p.expect(watch.Resync).Users {
			if u.StaleSince != 0 || seen[u.UserID] {
				t.Fatalf("%+v", u)
			}
			seen[u.UserID] = true
		}
	}
	g.happen(anna.becomes(schemas.Away))
	p.expect(watch.Change)
}

// Scenario 33: `lastseen` is behind by more than RecentFor, so neither the view nor Redis has the second
// change when a viewer comes.
func TestWhatAStaleReadMayLackIsMarkedByAResync(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r, func(c *fanout.Config) { c.RecentFor, c.RefreshInterval = time.Millisecond, time.Hour })
		anna := &person{id: 1}
		g.happen(anna.becomes(schemas.Online))
		p := g.dial()
		g.view.set(12345, nil)
		g.publish(anna.becomes(schemas.Away))
		g.await(func() bool {
			if r.Mini != nil {
				r.Mini.FastForward(time.Second)
			}
			recent, err := g.bus.Recent(t.Context(), []schemas.UserID{1})
			return err == nil && len(recent) == 0
		}, func() string { return "Redis keeps the change" })
		if users := p.watch(1); users[0].Version != "1" {
			t.Fatalf("%+v", users)
		}
		g.publish(anna.becomes(schemas.Online))
		if users := p.expect(watch.Resync).Users; users[0].Version != "3" {
			t.Fatalf("%+v", users)
		}
		g.publish(anna.becomes(schemas.Away))
		p.expect(watch.Change)
	})
}

func TestAViewThatFailsIsAnErrorAndNothingIsSubscribed(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	p := g.dial()
	g.view.set(0, errors.New("both stores are away"))
	p.send(`{"type":"subscribe","user_ids":[1]}`)
	if m := p.expect(watch.Error); m.Problem.Code != "unavailable" {
		t.Fatalf("%+v", m.Problem)
	}
	g.gone()
	g.view.set(0, nil)
	p.watch(1)
}

func TestSubscribingWhileRedisIsAwayIsStaleAndPutRightLater(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1}
	g.view.apply(anna.becomes(schemas.Online))
	g.redis.Down()
	p := g.dial()
	if u := p.watch(1)[0]; stateOf(u) != "online" || u.StaleSince == 0 {
		t.Fatalf("%+v", u)
	}
	g.redis.Up()
	g.awaitConnected()
	for {
		if u := p.expect(watch.Resync).Users[0]; u.StaleSince == 0 {
			sameJSON(t, u, g.view.one(t, 1))
			break
		}
	}
	g.happen(anna.becomes(schemas.Away))
	sameJSON(t, p.news(), g.view.one(t, 1))
}

// Scenario 32, as far as it is this room's: what Redis forgot is never told as
// offline, nor is anything told twice.
func TestARedisThatForgotEverythingSendsNothing(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	p := g.dial()
	p.watch(1)
	g.redis.Down()
	g.redis.Mini.FlushAll()
	g.redis.Up()
	g.awaitConnected()
	g.happen(anna.becomes(schemas.Away))
	sameJSON(t, p.news(), g.view.one(t, 1))
}

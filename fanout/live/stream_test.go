package live_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestASubscriberGetsASnapshotThenEachChangeOnce(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		anna, ben := &person{id: 1}, &person{id: 2}
		g.happen(anna.becomes(schemas.Online))
		p := g.dial()
		users := p.watch(1, 2)
		sameJSON(t, users, []schemas.Presence{g.view.one(t, 1), schemas.NeverSeen(2, 0)})
		for range 3 {
			first := anna.becomes(schemas.Away)
			g.happen(first)
			g.publish(first) // delivered again by the loop
			sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 1))
			g.happen(ben.becomes(schemas.Online))
			sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 2))
		}
	})
}

// Scenario 29, with a projector that is anywhere behind the publisher.
func TestNothingIsMissedNorOlderThanTheSnapshotWhileAUserChangesAThousandTimes(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		const changes, viewers = 1000, 20
		ts := (&person{id: 7}).flips(changes)
		start := make([]chan struct{}, viewers)
		for i := range start {
			start[i] = make(chan struct{})
		}
		peers := make([]*peer, viewers)
		for i := range peers {
			peers[i] = g.dial()
		}
		var all sync.WaitGroup
		all.Go(func() {
			for i, one := range ts {
				if i%(changes/viewers) == 0 {
					close(start[i/(changes/viewers)])
				}
				g.publish(one)
				if lag := i % 97; i >= lag {
					g.view.apply(ts[i-lag])
				}
			}
			g.view.apply(ts...)
		})
		ends := make([]schemas.User, viewers)
		for i, p := range peers {
			all.Go(func() {
				<-start[i]
				last := p.watch(7)[0]
				for last.Version != strconv.Itoa(changes) {
					next := *p.expect(watch.Change).User
					if before, _ := strconv.Atoi(last.Version); next.Version != strconv.Itoa(before+1) {
						t.Errorf("viewer %d: version %s after %s", i, next.Version, last.Version)
						return
					}
					last = next
				}
				ends[i] = last
			})
		}
		all.Wait()
		for _, end := range ends {
			sameJSON(t, end, g.view.one(t, 7))
		}
	})
}

// Scenario 30.
func TestRepeatedOwnUnknownAndTooManyIDsAreAnswered(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	p := g.dial()
	p.send(`{"type":"subscribe","user_ids":["1",1,"1",2]}`)
	users := p.expect(watch.Snapshot).Users
	if len(users) != 2 || users[0].UserID != "1" || users[1].UserID != "2" {
		t.Fatalf("snapshot %+v", users)
	}
	if stateOf(users[1]) != "offline" || users[1].Version != "0" || users[1].StaleSince != 0 {
		t.Fatalf("unknown user %+v", users[1])
	}
	if users := p.watch(1); len(users) != 1 {
		t.Fatalf("again: %+v", users)
	}
	many := `{"type":"subscribe","user_ids":[`
	for id := range 499 {
		many += fmt.Sprint(id+1000, ",")
	}
	p.send(many + `1]}`)
	if m := p.expect(watch.Error); m.Problem.Code != "too_many_subscriptions" || m.Problem.Field != "user_ids" {
		t.Fatalf("%+v", m.Problem)
	}
	anna := &person{id: 1}
	g.happen((&person{id: 1000}).becomes(schemas.Online), anna.becomes(schemas.Online))
	if m := p.expect(watch.Change); m.User.UserID != "1" { // once, and nothing of the refused request
		t.Fatalf("%+v", m.User)
	}
	g.happen(anna.becomes(schemas.Away))
	if m := p.expect(watch.Change); m.User.Version != "2" {
		t.Fatalf("%+v", m.User)
	}
	p.send(many[:len(many)-1-5] + `]}`) // 498: exactly the limit
	if users := p.expect(watch.Snapshot).Users; len(users) != 498 {
		t.Fatalf("%d users", len(users))
	}
}

func TestUnsubscribeEndsTheChangesAndTheLastOneFreesTheChannel(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		anna, ben := &person{id: 1}, &person{id: 2}
		p, q := g.dial(), g.dial()
		p.watch(1, 2)
		q.watch(1)
		if n := valueOf(g.metrics.Channels); n != 2 {
			t.Fatalf("%v channels for two users", n)
		}
		p.send(`{"type":"unsubscribe","user_ids":["1","999"]}`)
		p.watch(2) // the answer says that the unsubscribe is done
		g.happen(anna.becomes(schemas.Online), ben.becomes(schemas.Online))
		if m := p.expect(watch.Change); m.User.UserID != "2" {
			t.Fatalf("%+v", m.User)
		}
		if m := q.expect(watch.Change); m.User.UserID != "1" {
			t.Fatalf("%+v", m.User)
		}
		if users := p.watch(1); stateOf(users[0]) != "online" {
			t.Fatalf("%+v", users)
		}
		p.conn.CloseNow()
		q.send(`{"type":"unsubscribe","user_ids":[1]}`)
		g.gone()
	})
}

func TestTwentyFourViewersOfOneAnotherSeeEveryChangeOnceInOrder(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		g := newRig(t, r)
		const n, each = 24, 40
		var ids []schemas.UserID
		for i := range n {
			ids = append(ids, schemas.UserID(i+1))
		}
		peers := make([]*peer, n)
		var ready, all sync.WaitGroup
		for i := range peers {
			peers[i] = g.dial()
			ready.Go(func() { peers[i].watch(ids...) })
		}
		ready.Wait()
		if c := valueOf(g.metrics.Channels); c != n {
			t.Fatalf("%v channels for %d users", c, n)
		}
		for i := range n {
			all.Go(func() {
				for _, one := range (&person{id: ids[i]}).flips(each) {
					g.happen(one)
				}
			})
			all.Go(func() {
				last := map[string]int{}
				for range n * each {
					u := peers[i].expect(watch.Change).User
					if v, _ := strconv.Atoi(u.Version); v != last[u.UserID]+1 {
						t.Errorf("viewer %d, user %s: version %d after %d", i, u.UserID, v, last[u.UserID])
						return
					}
					last[u.UserID]++
				}
			})
		}
		all.Wait()
	})
}

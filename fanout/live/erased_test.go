package live_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// erasedInTheView is what the reader answers: a user never seen, with the version of the erasure
// (lastseen/query).
func (g *rig) erasedInTheView(id schemas.UserID, version schemas.Version) {
	g.view.mu.Lock()
	defer g.view.mu.Unlock()
	g.view.users[id] = schemas.Current{User: id, State: schemas.Offline, Visibility: schemas.Everyone, Version: version}
}

func TestAnErasureThatTheBusLostReachesOpenAndNewViewers(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), comparing, func(c *fanout.Config) { c.LostAfter = 10 * time.Millisecond; c.RecentFor = 50 * time.Millisecond })
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	p := g.dial()
	p.watch(1)
	client := redis.NewClient(&redis.Options{Addr: g.redis.Addr}) // the recent key expires
	must.Do(t, client.FlushDB(t.Context()).Err())
	_ = client.Close()
	g.erasedInTheView(1, anna.version+1) // the message of the erasure was lost
	q := g.dial()
	for _, u := range q.watch(1) {
		if u.LastSeenAt != 0 || *u.State != "offline" {
			t.Errorf("a new viewer is shown %+v %s", u, *u.State)
		}
	}
	got := make(chan struct{})
	go func() { p.expect(watch.Resync); close(got) }()
	select {
	case <-got:
	case <-time.After(5 * time.Second):
		t.Error("an open viewer is not told in 5 s (compare interval 1 s)")
	}
}

func TestAWatchedErasedUserIsNotReadForEver(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	g.view.mu.Lock() // of user 2 the begin of the state is unknown: it is read again and again
	g.view.users[2] = schemas.Current{User: 2, State: schemas.Online, Visibility: schemas.Everyone, Version: 5}
	g.view.mu.Unlock()
	p := g.dial()
	p.watch(1, 2)
	anna.version++
	erased := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Offline, At: 1_763_700_009_000, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Version: anna.version, Policy: "p", ErasedUntil: 1_764_700_009_000}
	g.publish(erased)
	g.erasedInTheView(1, anna.version)
	p.expect(watch.Change)
	erasedReads, others := g.view.readsOf(1), g.view.readsOf(2)
	eventually(t, "user 2 is read ten times", func() bool { return g.view.readsOf(2) >= others+10 })
	if more := g.view.readsOf(1) - erasedReads; more > 1 { // one may have been under way
		t.Errorf("%d reads of a user of whom nothing can be found", more)
	}
	changes := must.Get(g.bus.Recent(t.Context(), []schemas.UserID{1}))(t)
	for _, c := range changes {
		if c.Since != 0 {
			t.Errorf("the recent key of the erasure keeps since %s of the erased user", c.Since)
		}
	}
}

func TestAStreamThatResumesLearnsOfAnErasureThatRedisHasForgotten(t *testing.T) {
	t.Parallel()
	r := newResumable(t)
	anna, ben := &person{id: 1}, &person{id: 2}
	r.happens(anna.becomes(schemas.Online), ben.becomes(schemas.Online))
	next, leave := r.events("1,2", "")
	next(watch.Hello)
	_, id := next(watch.Snapshot)
	leave()
	r.gone() // whoever watches keeps the state
	r.view.mu.Lock()
	delete(r.view.users, 1)
	r.view.mu.Unlock()
	client := redis.NewClient(&redis.Options{Addr: r.redis.Addr}) // the recent key expires
	defer client.Close()
	must.Do(t, client.FlushDB(t.Context()).Err())
	next, leave = r.events("1,2", id)
	next(watch.Hello)
	if m, _ := next(watch.Change); m.User.UserID != "1" || *m.User.State != "offline" || m.User.LastSeenAt != 0 {
		t.Errorf("%+v", m.User)
	}
	m, id := next(watch.Resumed)
	if m.Missed != 1 {
		t.Errorf("%d were missed", m.Missed)
	}
	leave()
	next, leave = r.events("1,2", id)
	defer leave()
	next(watch.Hello)
	if m, _ := next(watch.Resumed); m.Missed != 0 {
		t.Errorf("%d were missed", m.Missed)
	}
}

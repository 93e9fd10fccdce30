package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// tenLong are changes of twenty days, two a day, of a user of acme and one of the default tenant, and of one
// who has no name.
func tenLong() (all []*schemas.Transition) {
	var at []schemas.Millis
	for d := range schemas.Millis(20) {
		at = append(at, Start+d*day, Start+d*day+1000)
	}
	return append(append(called(bob, visits(1, at...)), called(ann, visits(2, at...))...), visits(3, at...)...)
}

// keepsOf is what a Cleaner is given where acme keeps so many days.
func keepsOf(days int) func(string) int {
	return func(tenant string) int {
		if tenant == bob.Tenant {
			return days
		}
		return 0
	}
}

// wantAcmeFrom wants that what is shown of user 1 begins at an instant, and that all is shown of the others.
func wantAcmeFrom(t *testing.T, s Store, begins schemas.Millis) {
	t.Helper()
	log := tenLong()
	count := func(user schemas.UserID) (n int) {
		for _, c := range log {
			if c.User == user && (user != 1 || c.At >= begins) {
				n++
			}
		}
		return n
	}
	for _, of := range []schemas.UserID{0, 1, 2, 3} {
		found := map[schemas.UserID]int{}
		must.Do(t, s.Changes(t.Context(), store.Range{User: of}, func(e *store.Entry) error {
			found[e.User]++
			if e.User == 1 && e.At < begins {
				t.Errorf("a change of %s is shown", e.At)
			}
			return nil
		}))
		for _, user := range []schemas.UserID{1, 2, 3} {
			if want := count(user); (of == 0 || of == user) && found[user] != want {
				t.Errorf("of user %d %d changes are shown, want %d (asked for %d)", user, found[user], want, of)
			}
		}
	}
	for _, user := range []schemas.UserID{1, 2, 3} {
		page, err := s.History(t.Context(), store.HistoryQuery{User: user, Limit: 100})
		if must.Do(t, err); len(page.Changes) != count(user) {
			t.Errorf("the history of user %d has %d changes, want %d", user, len(page.Changes), count(user))
		}
		old, err := s.History(t.Context(), store.HistoryQuery{User: user, To: begins, Limit: 100})
		if must.Do(t, err); user == 1 && len(old.Changes) != 0 {
			t.Errorf("the history before the edge has %d changes", len(old.Changes))
		}
		missed, err := s.Missed(t.Context(), store.MissedQuery{Users: []schemas.UserID{user}, After: []schemas.Version{1}, Limit: 1000})
		must.Do(t, err)
		if last := missed.Changes[0].At; user == 1 && (last < begins || missed.Begins != begins) || user != 1 && missed.Begins != 0 {
			t.Errorf("of user %d was missed what came from %s on, and the log begins at %s", user, last, missed.Begins)
		}
	}
	if edges, err := s.TenantEdges(t.Context()); err != nil || len(edges) != 1 || edges[bob.Tenant] != begins {
		t.Errorf("the logs of tenants begin at %v, %v", edges, err)
	}
	present := func(user schemas.UserID) (users map[schemas.UserID]bool, err error) {
		users = map[schemas.UserID]bool{}
		err = s.AsOf(t.Context(), begins-day, user, func(e *store.Entry) error { users[e.User] = true; return nil })
		return users, err
	}
	if users, err := present(0); err != nil || users[1] || !users[2] || !users[3] {
		t.Errorf("known of the day before are %v, %v", users, err)
	}
	if _, err := present(1); !errors.As(err, new(*store.ForgottenError)) {
		t.Errorf("what was in force of a user of acme: %v", err)
	}
}

func tenantsKeepTheirDays(t *testing.T, s Store) {
	log := tenLong()
	write(t, s, log)
	now := (Start + 19*day).Time()
	begins := store.EdgeOf(now, 5)
	if want := schemas.MillisOf(now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -5)); begins != want {
		t.Fatalf("5 days before %s begin at %s", now, begins)
	}
	drop := func(days int, now time.Time) (dropped int64, pending []int64) {
		t.Helper()
		c := store.Cleaner{Log: s, Days: keepsOf(days), Dropped: func(n int64) { dropped += n }, Pending: func(n int64) { pending = append(pending, n) }}
		must.Do(t, c.Clean(t.Context(), now))
		must.Do(t, c.Clean(t.Context(), now))
		return dropped, pending
	}
	// Nothing older is shown from the moment on at which the edge has moved, before anything is deleted.
	if cleaned, err := s.MoveEdge(t.Context(), bob.Tenant, begins); err != nil || cleaned {
		t.Fatal(cleaned, err)
	}
	wantAcmeFrom(t, s, begins)
	old := int64(0)
	for _, c := range log {
		if c.User == 1 && c.At < begins {
			old++
		}
	}
	if dropped, pending := drop(5, now); dropped != old || pending[0] != 1 || pending[len(pending)-1] != 0 {
		t.Errorf("dropped %d of %d; tenants left: %v", dropped, old, pending)
	}
	if sizes, err := s.TenantSizes(t.Context(), true); err != nil || sizes[1].Tenant != bob.Tenant || sizes[1].Changes != 40-old || sizes[0].Changes != 40 {
		t.Errorf("the stores keep %+v (%v)", sizes, err)
	}
	wantAcmeFrom(t, s, begins)
	// A rebuild writes the topic again.
	at := must.Get(s.Position(t.Context(), 0))(t)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next, Next: at.Next + 1, Changes: tenLong()}))
	if sizes, err := s.TenantSizes(t.Context(), true); err != nil || sizes[1].Changes != 40-old {
		t.Errorf("after a rebuild the stores keep %+v (%v)", sizes, err)
	}
	wantAcmeFrom(t, s, begins)
	users, err := s.Users(t.Context(), []schemas.UserID{1})
	if must.Do(t, err); users[1].Since != Start+19*day+1000 {
		t.Errorf("user 1 is %+v", users[1])
	}
	// More days bring nothing back, the same ones cost no search, and none leave what there is.
	for _, days := range []int{5, 15, 0} {
		if dropped, _ := drop(days, now); dropped != 0 {
			t.Errorf("%d days dropped %d changes", days, dropped)
		}
		wantAcmeFrom(t, s, begins)
	}
	if dropped, _ := drop(5, now.Add(24*time.Hour)); dropped != 2 {
		t.Errorf("a day later %d changes were dropped", dropped)
	}
	wantAcmeFrom(t, s, begins+day)
}

func tenantsAreCleanedInSteps(t *testing.T, s Store) {
	var at []schemas.Millis
	for i := range schemas.Millis(300) {
		at = append(at, Start+i*60_000)
	}
	var users []schemas.UserID
	var log []*schemas.Transition
	for user := schemas.UserID(1); user <= 4; user++ {
		users, log = append(users, user), append(log, called(schemas.Name{Tenant: "acme", Text: string(rune('a' + user))}, visits(user, at...))...)
	}
	write(t, s, log)
	steps, left := 0, int64(len(log))
	for n := int64(100); n >= 100; steps++ {
		n = must.Get(s.DropBefore(t.Context(), users, Start+300*60_000, 100))(t)
		if left -= n; n > 100+3 { // of one instant there are four
			t.Fatalf("a step has dropped %d changes", n)
		}
	}
	if left != 0 || steps < 12 {
		t.Errorf("%d changes are left after %d steps", left, steps)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := store.Cleaner{Log: s, Days: keepsOf(5), Dropped: func(int64) {}, Pending: func(int64) {}}
	if err := c.Clean(ctx, (Start + 19*day).Time()); err == nil {
		t.Error("a context that ended is no error")
	}
}

package storetest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// visible is what of log may be shown: by user, in the order of the log.
func visible(t *testing.T, log []*schemas.Transition) map[schemas.UserID][]*schemas.Transition {
	t.Helper()
	current := map[schemas.UserID]schemas.Current{}
	shown := map[schemas.UserID][]*schemas.Transition{}
	for _, change := range log {
		current[change.User] = store.After(current[change.User], change)
		if change.Visibility != schemas.Nobody {
			told := *logged(change)
			shown[change.User] = append(shown[change.User], &told)
		}
	}
	for user, c := range current {
		if c.Visibility == schemas.Nobody {
			delete(shown, user)
		}
		must.Do(t, store.RedactHidden(newestFirst(shown[user]), func(schemas.Millis, schemas.Millis) (schemas.Millis, error) { return 0, nil }))
	}
	return shown
}

func wantMissed(t *testing.T, s Store, query store.MissedQuery, want []*schemas.Transition) {
	t.Helper()
	missed := must.Get(s.Missed(t.Context(), query))(t)
	if len(missed.Changes) != len(want) {
		t.Fatalf("missed %+v are %d changes, want %d", query, len(missed.Changes), len(want))
	}
	for i, change := range missed.Changes {
		if *change != *want[i] {
			t.Fatalf("missed %+v: change %d is\n%+v, want\n%+v", query, i, *change, *want[i])
		}
	}
}

// missedAfterAnyVersion asks after random versions of a random log.
func missedAfterAnyVersion(t *testing.T, s Store) {
	log := RandomLog(7, 6, 300)
	write(t, s, log)
	shown := visible(t, log)
	rapid.Check(t, func(r *rapid.T) {
		var query store.MissedQuery
		var want []*schemas.Transition
		for user := schemas.UserID(1); user <= 7; user++ { // of the last one nothing is known
			if rapid.Bool().Draw(r, "left out") {
				continue
			}
			after := schemas.Version(0)
			if n := rapid.IntRange(0, len(log)).Draw(r, "after"); n > 0 {
				after = log[n-1].Version
			}
			query.Users, query.After = append(query.Users, user), append(query.After, after)
			for _, change := range shown[user] {
				if change.Version > after {
					want = append(want, change)
				}
			}
		}
		query.Limit = rapid.IntRange(1, 400).Draw(r, "limit")
		if rapid.Bool().Draw(r, "from") {
			query.From = log[rapid.IntRange(0, 20).Draw(r, "from")].At
			want = slices.DeleteFunc(want, func(c *schemas.Transition) bool { return c.At < query.From })
		}
		wantMissed(t, s, query, want[:min(query.Limit, len(want))])
	})
}

func missedOfHiddenUser(t *testing.T, s Store) {
	log := visits(7, Start, Start+1, Start+2, Start+3)
	hides(log, 2, 4)
	write(t, s, append(log, visits(8, Start)...))
	wantMissed(t, s, store.MissedQuery{Users: []schemas.UserID{7, 8}, After: []schemas.Version{0, 0}, Limit: 10}, visits(8, Start))
}

// missedTimesLeftOut asks after the show of a user who was seen while it hid.
func missedTimesLeftOut(t *testing.T, s Store) {
	log := visits(7, Start, Start+1000, Start+2000, Start+3000)
	hides(log, 1, 2)
	show, after := log[2], log[3]
	show.Cause, show.From, show.To, show.LastSeen, show.LastActive = schemas.VisibilityChange, schemas.Offline, schemas.Away, Start+1500, Start+1400
	after.Cause, after.From, after.To, after.LastSeen, after.LastActive = schemas.Silent, schemas.Away, schemas.Offline, Start+1500, Start+1400
	write(t, s, log)
	want := *after
	want.LastSeen, want.LastActive = show.At, show.At
	wantMissed(t, s, store.MissedQuery{Users: []schemas.UserID{7}, After: []schemas.Version{show.Version}, Limit: 10}, []*schemas.Transition{&want})
}

func missedFromCutLog(t *testing.T, s Store) {
	log := visits(7, Start, Start+day, Start+2*day, Start+3*day)
	write(t, s, log)
	query := store.MissedQuery{Users: []schemas.UserID{7}, After: []schemas.Version{0}, Limit: 10}
	whole := must.Get(s.Missed(t.Context(), query))(t)
	if whole.Begins != 0 || len(whole.Changes) != 4 {
		t.Fatalf("%d changes of a log that begins at %s", len(whole.Changes), whole.Begins)
	}
	forget(t, s, Start+2*day)
	cut := must.Get(s.Missed(t.Context(), query))(t)
	if cut.Begins <= Start+day || cut.Begins > Start+2*day || len(cut.Changes) != 2 {
		t.Fatalf("%d changes of a log that begins at %s", len(cut.Changes), cut.Begins)
	}
}

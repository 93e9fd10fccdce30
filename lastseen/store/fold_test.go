package store_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

func TestFoldedRunsSayWhatTheirTransitionsSayOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := storetest.DrawLog(t, 3, 40)
		one := map[schemas.UserID]schemas.Current{}
		for _, change := range log {
			one[change.User] = store.After(one[change.User], change)
		}
		folded := map[schemas.UserID]schemas.Current{}
		for rest := log; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			// What was written before is written again now and then.
			again := rapid.IntRange(0, len(log)-len(rest)).Draw(t, "again")
			start := len(log) - len(rest) - again
			for _, u := range store.Fold(log[start : start+again+n]) {
				folded[u.User] = u.Onto(folded[u.User])
			}
			rest = rest[n:]
		}
		for user, want := range one {
			if got := folded[user]; got != want {
				t.Fatalf("user %d: folded %+v, one by one %+v", user, got, want)
			}
		}
	})
}

func TestFoldOrdersByUserSoThatWritersLockRowsInOneOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		updates := store.Fold(storetest.DrawLog(t, 20, 60))
		ordered := slices.IsSortedFunc(updates, func(a, b store.Update) int { return int(a.User - b.User) })
		if !ordered {
			t.Fatalf("not ordered: %+v", updates)
		}
	})
}

// The log has no times of a user of whom nothing was heard, and readers see that of the show all the same.
func TestAShowDoesNotSayWhetherTheUserWasPresentWhileHidden(t *testing.T) {
	t.Parallel()
	const user, hidden, back, gone, shown = 7, 1000, 2000, 3000, 4000
	change := func(version schemas.Version, at schemas.Millis, from, to schemas.State, cause schemas.Cause, visibility schemas.Visibility, seen schemas.Millis) *schemas.Transition {
		return &schemas.Transition{User: user, Version: version, At: at, From: from, To: to, Cause: cause, Visibility: visibility, LastSeen: seen, LastActive: seen}
	}
	hide := change(1, hidden, schemas.Offline, schemas.Offline, schemas.VisibilityChange, schemas.Nobody, 0)
	absent := []*schemas.Transition{hide, change(9, shown, schemas.Offline, schemas.Offline, schemas.VisibilityChange, schemas.Everyone, 0)}
	present := []*schemas.Transition{hide, change(2, back, schemas.Offline, schemas.Online, schemas.FirstBeat, schemas.Nobody, back),
		change(3, gone, schemas.Online, schemas.Offline, schemas.Bye, schemas.Nobody, gone),
		change(9, shown, schemas.Offline, schemas.Offline, schemas.VisibilityChange, schemas.Everyone, shown)}
	read := func(log []*schemas.Transition) (schemas.Current, schemas.Transition) {
		var current schemas.Current
		for _, t := range log {
			current = store.After(current, t)
		}
		history := *log[len(log)-1]
		must.Do(t, store.RedactHidden([]*schemas.Transition{&history}, func(schemas.Millis, schemas.Millis) (schemas.Millis, error) { return 0, nil }))
		return current, history
	}
	was, wasRow := read(present)
	was2, wasRow2 := read(absent)
	if was != was2 || wasRow != wasRow2 {
		t.Errorf("a user who was present while hidden looks like\n%+v\n%+v\none who was not like\n%+v\n%+v", was, wasRow, was2, wasRow2)
	}
	if was.LastSeen != shown {
		t.Errorf("last seen is %d, want the show", was.LastSeen)
	}
}

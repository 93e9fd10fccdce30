package store_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

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

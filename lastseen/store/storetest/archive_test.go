package storetest

import (
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// spread is a log over four days, with a change in the last millisecond of one.
func spread(t *testing.T, s Store) []*schemas.Transition {
	t.Helper()
	log := RandomLog(4, 9, 240)
	for i, change := range log {
		change.At += schemas.Millis(i) * day / 60
	}
	log[100].At = log[100].At/day*day + day - 1
	log[101].At = log[100].At + 1
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 240, Changes: log}))
	return log
}

func entryOf(t *schemas.Transition) store.Entry {
	e := store.Entry{Transition: *t}
	e.SetEvent([]byte(t.EventID().String()))
	return e
}

func wantChanges(t *testing.T, s Store, of store.Range, log []*schemas.Transition) {
	t.Helper()
	var want, got []store.Entry
	for _, change := range log {
		if change.At >= of.From && (of.To == 0 || change.At < of.To) && (of.User == 0 || change.User == of.User) {
			want = append(want, entryOf(change))
		}
	}
	slices.SortFunc(want, func(a, b store.Entry) int { return a.Compare(&b) })
	must.Do(t, s.Changes(t.Context(), of, func(e *store.Entry) error { got = append(got, *e); return nil }))
	if !slices.Equal(got, want) {
		t.Fatalf("changes of %+v are %d\n%+v, want %d\n%+v", of, len(got), got, len(want), want)
	}
}

func changesComeBack(t *testing.T, s Store) {
	wantChanges(t, s, store.Range{}, nil)
	wantChanges(t, s, store.Range{}, spread(t, s))
}

func changesOfRanges(t *testing.T, s Store) {
	log := spread(t, s)
	for _, of := range []store.Range{
		{From: log[100].At}, {From: log[100].At, To: log[101].At}, {To: log[101].At}, {From: log[101].At, To: log[101].At + 1},
		{From: log[20].At, To: log[200].At, User: 3}, {User: 9}, {User: 10}, {From: log[239].At + 1},
	} {
		wantChanges(t, s, of, log)
	}
}

func inForce(t *testing.T, s Store) {
	log := spread(t, s)
	for _, i := range []int{0, 1, 50, 100, 101, 170, 239} {
		at := log[i].At
		newest := map[schemas.UserID]*schemas.Transition{}
		for _, change := range log {
			if known := newest[change.User]; change.At <= at && (known == nil || change.At >= known.At) {
				newest[change.User] = change
			}
		}
		for user := range schemas.UserID(10) { // 0: all
			seen := 0
			must.Do(t, s.AsOf(t.Context(), at, user, func(e *store.Entry) error {
				seen++
				want := newest[e.User]
				if want == nil || user != 0 && e.User != user {
					t.Errorf("at %s user %d: %+v is known", at, user, *e)
				} else if e.To != want.To || e.To == schemas.Online && (e.At != want.At || e.Version != want.Version || e.Kinds != want.Kinds ||
					e.LastSeen != want.LastSeen || e.LastActive != want.LastActive || e.Visibility != want.Visibility) {
					t.Errorf("at %s user %d was\n%+v, want\n%+v", at, e.User, e.Transition, *want)
				}
				return nil
			}))
			if want := newest[user]; user == 0 && seen != len(newest) || user != 0 && seen == 0 && want != nil {
				t.Errorf("at %s: %d entries of user %d", at, seen, user)
			}
		}
	}
}

// presentForLonger has users whose last change is older than what the store keeps of the log. AsOf
// knows what was in force all the same.
func presentForLonger(t *testing.T, s Store) {
	change := func(user schemas.UserID, at schemas.Millis, from, to schemas.State, cause schemas.Cause, visibility schemas.Visibility) *schemas.Transition {
		return &schemas.Transition{User: user, From: from, To: to, At: at, LastSeen: at, LastActive: at, Cause: cause, Visibility: visibility,
			Kinds: schemas.SetOfKinds(schemas.Web), Version: schemas.NewVersion(1, int64(at-Start), int(user))}
	}
	log := []*schemas.Transition{
		change(1, Start, schemas.Offline, schemas.Online, schemas.FirstBeat, schemas.Everyone),
		change(2, Start, schemas.Offline, schemas.Away, schemas.FirstBeat, schemas.Everyone),
		change(5, Start, schemas.Offline, schemas.Online, schemas.FirstBeat, schemas.Everyone),
		change(5, Start+1, schemas.Online, schemas.Online, schemas.VisibilityChange, schemas.Nobody),
		change(2, Start+10*day, schemas.Away, schemas.Offline, schemas.Silent, schemas.Everyone),
		change(3, Start+10*day, schemas.Offline, schemas.Online, schemas.FirstBeat, schemas.Everyone),
	}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: int64(len(log)), Changes: log}))
	forget(t, s, Start+5*day)
	for _, at := range []schemas.Millis{Start - 9*day, Start - 1, Start + 1, Start + 3*day} {
		for user := range schemas.UserID(7) { // 0: all
			wantForgotten(t, s, at, user)
		}
	}
	for at, want := range map[schemas.Millis]map[schemas.UserID]schemas.State{
		Start + 8*day:  {1: schemas.Online, 2: schemas.Away, 5: schemas.Online},
		Start + 11*day: {1: schemas.Online, 2: schemas.Offline, 3: schemas.Online, 5: schemas.Online},
	} {
		for user := range schemas.UserID(6) { // 0: all
			seen := map[schemas.UserID]schemas.State{}
			must.Do(t, s.AsOf(t.Context(), at, user, func(e *store.Entry) error {
				if _, twice := seen[e.User]; twice || e.At > at || (e.Visibility == schemas.Nobody) != (e.User == 5) {
					t.Errorf("at %s user %d: %+v", at, e.User, e.Transition)
				}
				seen[e.User] = e.To
				return nil
			}))
			for id, state := range want {
				if (user == 0 || user == id) && seen[id] != state {
					t.Errorf("at %s user %d was %v, is told as %v", at, id, state, seen[id])
				}
			}
			if user == 0 && len(seen) != len(want) || user != 0 && want[user] == 0 && len(seen) != 0 {
				t.Errorf("at %s of user %d: %v", at, user, seen)
			}
		}
	}
}

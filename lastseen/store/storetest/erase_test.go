package storetest

import (
	"context"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// erasing is the erasure of a user after n records.
func erasing(user schemas.UserID, at schemas.Millis, n int64) *schemas.Transition {
	return &schemas.Transition{User: user, From: schemas.Online, To: schemas.Offline, At: at, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Version: schemas.NewVersion(1, n, 0), Policy: "p-1", ErasedUntil: at + 10*day}
}

func erasedLeavesNothing(t *testing.T, s Store) {
	other := visits(2, Start)
	log := visits(1, Start, Start+1, Start+2*day)
	wrote := log
	append1 := func(changes ...*schemas.Transition) {
		t.Helper()
		at := must.Get(s.Position(t.Context(), 0))(t)
		must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next, Next: max(0, at.Next) + int64(len(changes)), Changes: changes}))
	}
	nothing := func() {
		t.Helper()
		users := must.Get(s.Users(t.Context(), []schemas.UserID{1, 2}))(t)
		if _, known := users[1]; known || len(users) != 1 {
			t.Errorf("users %+v", users)
		}
		wantHistory(t, s, store.HistoryQuery{User: 1, Limit: 10}, nil)
		wantLog(t, s, other)
		if found := asOf(t, s, Start+1, 0); len(found) != 1 {
			t.Errorf("in force was %+v", found)
		}
	}
	append1(append(wrote, other...)...)
	append1(erasing(1, Start+3*day, 100))
	nothing()
	append1(log...) // as after a reset of offsets
	nothing()
	append1(append(append([]*schemas.Transition{}, log...), erasing(1, Start+3*day, 100))...)
	nothing()
	if n, err := s.Import(t.Context(), []store.LastSeen{{User: 1, At: Start}}); err != nil || n != 0 {
		t.Errorf("an import brought %d users back (%v)", n, err)
	}
	erased, err := s.Erased(t.Context())
	if must.Do(t, err); len(erased) != 1 || erased[1] != schemas.NewVersion(1, 100, 0) {
		t.Errorf("erased are %v", erased)
	}
	for user, want := range []store.Erasure{1: {User: 1, Version: erased[1], Until: Start + 13*day}, 2: {}} {
		if got, err := s.ErasureOf(t.Context(), schemas.UserID(user)); err != nil || got != want {
			t.Errorf("the erasure of user %d is %+v (%v), want %+v", user, got, err, want)
		}
	}
	// Until the day of the receipt.
	must.Do(t, s.Maintain(context.Background(), (Start+13*day-1).Time()))
	if erased, err = s.Erased(t.Context()); err != nil || len(erased) != 1 {
		t.Errorf("before the day: erased are %v (%v)", erased, err)
	}
	must.Do(t, s.Maintain(t.Context(), (Start+13*day).Time()))
	if erased, err = s.Erased(t.Context()); err != nil || len(erased) != 0 {
		t.Errorf("on the day: erased are %v (%v)", erased, err)
	}
	nothing()
}

func erasedComesBack(t *testing.T, s Store) {
	log := visits(1, Start, Start+1)
	back := visits(1, Start+5000, Start+6000)
	for i, change := range back {
		change.Version = schemas.NewVersion(1, int64(200+i), 0)
	}
	all := append(append(append([]*schemas.Transition{}, log...), erasing(1, Start+4000, 100)), back...)
	write(t, s, all) // in one batch
	for range 2 {
		wantHistory(t, s, store.HistoryQuery{User: 1, Limit: 10}, newestFirst(back))
		wantUsers(t, s, back)
		for i := range all { // one by one, from other offsets
			at := must.Get(s.Position(t.Context(), 0))(t)
			must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next, Next: at.Next + 1, Changes: all[i : i+1]}))
		}
	}
}

package storetest

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func importCounts(t *testing.T, s Store) {
	log := visits(1, 5_000_000)
	write(t, s, log)
	before := must.Get(s.Users(t.Context(), []schemas.UserID{1}))(t)
	imports := func(want int64, users ...store.LastSeen) {
		t.Helper()
		if stored, err := s.Import(t.Context(), users); err != nil || stored != want {
			t.Fatalf("importing %v: %d stored (%v), want %d", users, stored, err, want)
		}
	}
	imports(2, store.LastSeen{User: 1, At: 9_000_000}, store.LastSeen{User: 2, At: 3000}, store.LastSeen{User: 3, At: 1000})
	imports(0, store.LastSeen{User: 2, At: 3000}, store.LastSeen{User: 3, At: 999})
	imports(1, store.LastSeen{User: 2, At: 4000})
	imports(0)
	users := must.Get(s.Users(t.Context(), []schemas.UserID{1, 2, 3, 4}))(t)
	want := schemas.Current{User: 2, State: schemas.Offline, Since: 4000, LastSeen: 4000, Visibility: schemas.Everyone}
	if users[1] != before[1] || users[2] != want || users[3].LastSeen != 1000 || len(users) != 3 {
		t.Errorf("users are %+v, before %+v", users, before)
	}
	if now := asOf(t, s, 10_000_000, 0); len(now) != 1 {
		t.Errorf("in force is %+v, want user 1 alone", now)
	}
	wantHistory(t, s, store.HistoryQuery{User: 2, Limit: 10}, nil)
	wantNames(t, s)
	// The first change replaces the import, also one of a later time; no import replaces a change.
	first := append(visits(3, 6_000_000), visits(2, 3500)...)
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 7, Expected: store.Unknown, Next: 9, Changes: first}))
	imports(0, store.LastSeen{User: 3, At: 8_000_000})
	users = must.Get(s.Users(t.Context(), []schemas.UserID{2, 3}))(t)
	for _, last := range first {
		if is := users[last.User]; is.Version != last.Version || is.LastSeen != last.LastSeen {
			t.Errorf("user %d is %+v after %+v", last.User, is, last)
		}
	}
}

func importNames(t *testing.T, s Store) {
	write(t, s, called(ann, visits(1, 5_000_000)))
	for range 2 { // lines may be read twice
		_, err := s.Import(t.Context(), []store.LastSeen{{User: 1, At: 9_000_000, Name: ann}, {User: 2, At: 3000, Name: bob}})
		must.Do(t, err)
		wantNames(t, s, schemas.UserName{User: 1, Name: ann}, schemas.UserName{User: 2, Name: bob})
	}
	must.Get(s.Import(t.Context(), []store.LastSeen{{User: 2, At: 3000, Name: eve}, {User: 3, At: 3000, Name: eve}}))(t)
	wantNames(t, s, schemas.UserName{User: 1, Name: ann}, schemas.UserName{User: 2, Name: bob},
		schemas.UserName{User: 3, Name: eve})
	// An erased user does not get the name back.
	at := must.Get(s.Position(t.Context(), 0))(t)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next, Next: at.Next + 1, Changes: []*schemas.Transition{erasing(1, Start+day, 100)}}))
	_, err := s.Import(t.Context(), []store.LastSeen{{User: 1, At: 9_000_000, Name: ann}, {User: 4, At: 3000, Name: ann}})
	must.Do(t, err)
	wantNames(t, s, schemas.UserName{User: 2, Name: bob}, schemas.UserName{User: 3, Name: eve},
		schemas.UserName{User: 4, Name: ann})
}

package storetest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// denies is a change of the list of user 1, after n records; the one before came after as many as given, -1: never.
func denies(t *testing.T, before, n int64, add, remove []schemas.UserID) *schemas.Transition {
	t.Helper()
	c := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Online, At: Start + schemas.Millis(n), Cause: schemas.AudienceSet,
		Visibility: schemas.Everyone, Version: schemas.NewVersion(1, n, 0), Denies: must.Get(schemas.NewDenies("denies", 1, add, remove))(t)}
	if c.Override.Audience = c.Version; before >= 0 {
		c.AudienceBefore = schemas.NewVersion(1, before, 0)
	}
	return c
}

// again writes changes at the next offsets, whether the store has them or not.
func again(t *testing.T, s Store, changes ...*schemas.Transition) {
	t.Helper()
	at := must.Get(s.Position(t.Context(), 0))(t)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next, Next: max(0, at.Next) + int64(len(changes)), Changes: changes}))
}

// deniedIn are the lists after a log: of a user since when viewers are denied, with viewer 0 for the version.
func deniedIn(log []*schemas.Transition) map[schemas.UserID]map[schemas.UserID]int64 {
	lists := map[schemas.UserID]map[schemas.UserID]int64{}
	for _, c := range log {
		if lists[c.User] == nil {
			lists[c.User] = map[schemas.UserID]int64{0: 0}
		}
		if c.Denies == "" {
			continue
		}
		lists[c.User][0] = int64(c.Version)
		add, remove := c.Denies.Changes()
		for _, viewer := range add {
			lists[c.User][viewer] = int64(c.At)
		}
		for _, viewer := range remove {
			delete(lists[c.User], viewer)
		}
	}
	return lists
}

// deniedBy is what a store has of what deniedIn returns.
func deniedBy(t *testing.T, s Store, user schemas.UserID) map[schemas.UserID]int64 {
	t.Helper()
	list, audience, err := s.DeniedBy(t.Context(), user, 0, schemas.MaxDenied)
	must.Do(t, err)
	found := map[schemas.UserID]int64{0: int64(audience)}
	for _, d := range list {
		found[d.Viewer] = int64(d.At)
	}
	return found
}

func wantDenied(t *testing.T, s Store, log []*schemas.Transition) {
	t.Helper()
	all, versions := deniedIn(log), map[int64]schemas.Version{}
	for _, c := range log {
		versions[int64(c.At)] = c.Version
	}
	users, viewers := []schemas.UserID{1000}, map[schemas.UserID]bool{1000: true}
	for user, want := range all {
		users = append(users, user)
		for viewer := range want {
			viewers[viewer] = true
		}
		if got := deniedBy(t, s, user); !reflect.DeepEqual(got, want) {
			t.Fatalf("user %d denies %v, want %v", user, got, want)
		}
	}
	for viewer := range viewers {
		want := map[schemas.UserID]shown.Denying{}
		for user, list := range all {
			if list[0] != 0 {
				want[user] = shown.Denying{Version: schemas.Version(list[0])}
			}
			if viewer != 0 && list[viewer] != 0 {
				want[user] = shown.Denying{Version: schemas.Version(list[0]), Since: schemas.Millis(list[viewer]),
					Hidden: versions[list[viewer]]}
			}
		}
		if got := must.Get(s.Denying(t.Context(), viewer, users))(t); !reflect.DeepEqual(got, want) {
			t.Fatalf("of viewer %d: %+v, want %+v", viewer, got, want)
		}
	}
}

func deniedAreReplayed(t *testing.T, s Store) {
	log := RandomLog(12, 3, 80)
	for i, c := range log {
		again(t, s, c)
		wantDenied(t, s, log[:i+1])
	}
	again(t, s, log...)
	wantDenied(t, s, log)
	want := deniedIn(log)
	for from := range log {
		for _, c := range log[from:min(from+9, len(log))] { // meanwhile nobody is shown whom the log hides
			again(t, s, c)
			for viewer, since := range want[c.User] {
				if got := deniedBy(t, s, c.User); got[viewer] != since {
					t.Fatalf("replayed from change %d to %s user %d denies %v, want %v", from, c.Version, c.User, got, want[c.User])
				}
			}
		}
		again(t, s, log[from:]...)
		wantDenied(t, s, log)
	}
}

func newestDenialCounts(t *testing.T, s Store) {
	first := denies(t, -1, 1, []schemas.UserID{2, 3}, nil)
	removal := denies(t, 1, 2, nil, []schemas.UserID{2, 4})
	newer := denies(t, 2, 3, []schemas.UserID{2}, nil)
	all := []*schemas.Transition{first, removal, newer}
	again(t, s, all...) // in one batch
	wantDenied(t, s, all)
	again(t, s, removal)
	wantDenied(t, s, all)
	last := denies(t, 3, 4, nil, []schemas.UserID{2})
	again(t, s, last)
	all = append(all, last)
	wantDenied(t, s, all)
	again(t, s, first) // fail closed
	if got := deniedBy(t, s, 1); len(got) != 3 {
		t.Errorf("after an old change was read again the user denies %v", got)
	}
	again(t, s, last)
	wantDenied(t, s, all)
}

// missingDenials is a store that was emptied, whose sink goes on.
func missingDenials(t *testing.T, s Store) {
	log := []*schemas.Transition{denies(t, -1, 1, []schemas.UserID{2}, nil), denies(t, 1, 2, []schemas.UserID{3}, nil),
		denies(t, 2, 3, []schemas.UserID{4}, nil), denies(t, 3, 4, nil, []schemas.UserID{4})}
	unknown := func(viewers ...schemas.UserID) {
		t.Helper()
		list, audience, err := s.DeniedBy(t.Context(), 1, 0, 9)
		must.Do(t, err)
		found := make([]schemas.UserID, len(list))
		for i, d := range list {
			found[i] = d.Viewer
		}
		if audience != 0 || !slices.Equal(found, viewers) {
			t.Errorf("the list is %v as of %s, want %v as of 0", found, audience, viewers)
		}
		for user, d := range must.Get(s.Denying(t.Context(), 2, []schemas.UserID{1}))(t) {
			if d.Version != 0 || !d.Withholds() {
				t.Errorf("user %d denies as of %s", user, d.Version)
			}
		}
	}
	after := *log[3]
	after.Version, after.Cause, after.Denies, after.AudienceBefore = schemas.NewVersion(1, 5, 0), schemas.DevicesChanged, "", 0
	again(t, s, &after)
	unknown()
	again(t, s, log[2:]...)
	unknown()
	again(t, s, log[0])
	unknown(2)
	again(t, s, log...)
	wantDenied(t, s, log)
	again(t, s, denies(t, 6, 7, nil, []schemas.UserID{9})) // one was sent to the dead-letter topic
	unknown(2, 3)
}

func deniedInPages(t *testing.T, s Store) {
	var log []*schemas.Transition
	for n := range int64(schemas.MaxDenied / schemas.MaxDenies) {
		viewers := make([]schemas.UserID, schemas.MaxDenies)
		for i := range viewers {
			viewers[i] = 2 + schemas.UserID(n+int64(i)*10)
		}
		log = append(log, denies(t, n-1, n, viewers, nil))
	}
	again(t, s, log...)
	wantDeniedOf := deniedIn(log)[1]
	for limit, after := 999, schemas.UserID(0); len(wantDeniedOf) > 1; {
		page, audience, err := s.DeniedBy(t.Context(), 1, after, limit)
		if must.Do(t, err); audience != log[9].Version || len(page) != min(limit, len(wantDeniedOf)-1) {
			t.Fatalf("after %d: %d viewers as of %s", after, len(page), audience)
		}
		for _, d := range page {
			if d.Viewer <= after || wantDeniedOf[d.Viewer] != int64(d.At) {
				t.Fatalf("after %d: %+v", after, d)
			}
			after = d.Viewer
			delete(wantDeniedOf, d.Viewer)
		}
	}
}

func deniedOfErased(t *testing.T, s Store) {
	first := denies(t, -1, 1, []schemas.UserID{2, 3}, nil)
	again(t, s, first, erasing(2, Start+5, 5))
	wantDenied(t, s, []*schemas.Transition{first})
	back := denies(t, -1, 12, []schemas.UserID{4}, nil)
	for range 2 {
		again(t, s, erasing(1, Start+10, 10))
		again(t, s, first)
		if got := deniedBy(t, s, 1); len(got) != 1 || got[0] != 0 {
			t.Errorf("an erased user denies %v", got)
		}
	}
	again(t, s, back)
	wantDenied(t, s, []*schemas.Transition{back})
	again(t, s, first, erasing(1, Start+10, 10))
	wantDenied(t, s, []*schemas.Transition{back})
}

package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// visits is a log of one user who comes and goes at the given instants.
func visits(user schemas.UserID, at ...schemas.Millis) []*schemas.Transition {
	var c schemas.Current
	log := make([]*schemas.Transition, 0, len(at))
	for i, instant := range at {
		t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: instant, LastSeen: instant,
			Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: schemas.NewVersion(1, int64(i), 0), Policy: "p-1"}
		if c.State == schemas.Online {
			t.From, t.To, t.Cause = schemas.Online, schemas.Offline, schemas.Bye
		}
		c = c.After(t)
		log = append(log, t)
	}
	return log
}

func write(t *testing.T, s Store, log []*schemas.Transition) {
	t.Helper()
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: int64(len(log)), Changes: log}))
}

func newestFirst(log []*schemas.Transition) []*schemas.Transition {
	log = slices.Clone(log)
	slices.Reverse(log)
	return log
}

func historyNewestFirst(t *testing.T, s Store) {
	log := visits(7, Start, Start+1, Start+2, Start+1000)
	write(t, s, append(visits(8, Start), log...))
	wantHistory(t, s, store.HistoryQuery{User: 7, Limit: 10}, newestFirst(log))
}

func historyBounds(t *testing.T, s Store) {
	log := visits(7, Start, Start+1, Start+2, Start+3)
	write(t, s, log)
	wantHistory(t, s, store.HistoryQuery{User: 7, From: Start + 1, To: Start + 3, Limit: 10}, newestFirst(log[1:3]))
	wantHistory(t, s, store.HistoryQuery{User: 7, From: Start + 1, Limit: 10}, newestFirst(log[1:]))
	wantHistory(t, s, store.HistoryQuery{User: 7, To: Start + 1, Limit: 10}, newestFirst(log[:1]))
	wantHistory(t, s, store.HistoryQuery{User: 7, From: Start + 4, Limit: 10}, nil)
	wantHistory(t, s, store.HistoryQuery{User: 7, From: Start + 2, To: Start + 2, Limit: 10}, nil)
}

func historyPages(t *testing.T, s Store) {
	instants := make([]schemas.Millis, 25)
	for i := range instants {
		instants[i] = Start + schemas.Millis(i)*schemas.Millis(7*time.Hour/time.Millisecond)
	}
	log := visits(7, instants...)
	write(t, s, log)
	all := newestFirst(log)
	for limit := 1; limit <= len(all)+1; limit++ {
		wantPages(t, s, store.HistoryQuery{User: 7, Limit: limit}, all)
		wantPages(t, s, store.HistoryQuery{User: 7, Limit: limit, From: log[3].At, To: log[20].At}, all[5:22])
	}
}

// wantPages follows the cursor from the first page to the last.
func wantPages(t *testing.T, s Store, query store.HistoryQuery, want []*schemas.Transition) {
	t.Helper()
	for {
		n := min(query.Limit, len(want))
		page := wantHistory(t, s, query, want[:n])
		want = want[n:]
		if page.Next == (store.Cursor{}) {
			break
		}
		query.After = page.Next
	}
	if len(want) > 0 {
		t.Fatalf("limit %d: the last page came %d changes too early", query.Limit, len(want))
	}
}

func historyOneInstant(t *testing.T, s Store) {
	log := visits(7, Start, Start, Start, Start, Start)
	write(t, s, log)
	wantPages(t, s, store.HistoryQuery{User: 7, Limit: 2}, newestFirst(log))
}

// hides makes changes[from:to] those of a hidden user.
func hides(log []*schemas.Transition, from, to int) {
	for i, change := range log[from:to] {
		change.Visibility = schemas.Nobody
		if i == 0 {
			change.Cause, change.From, change.To = schemas.VisibilityChange, schemas.Online, schemas.Online
		}
	}
}

func hiddenHistoryEmpty(t *testing.T, s Store) {
	log := visits(7, Start, Start+1, Start+2, Start+3)
	hides(log, 2, 4)
	write(t, s, log)
	wantHistory(t, s, store.HistoryQuery{User: 7, Limit: 1}, nil)
	after := store.Cursor{At: Start + 2, Version: log[2].Version}
	wantHistory(t, s, store.HistoryQuery{User: 7, Limit: 10, After: after}, nil)
}

func hiddenPartLeftOut(t *testing.T, s Store) {
	log := visits(7, Start, Start+1, Start+2, Start+3, Start+4, Start+5)
	hides(log, 2, 4)
	write(t, s, log)
	wantHistory(t, s, store.HistoryQuery{User: 7, Limit: 10}, newestFirst(slices.Concat(log[:2], log[4:])))
	wantPages(t, s, store.HistoryQuery{User: 7, Limit: 2}, newestFirst(slices.Concat(log[:2], log[4:])))
}

// hiddenTimesLeftOut has a user who was seen while it hid, showed again, and fell silent.
func hiddenTimesLeftOut(t *testing.T, s Store) {
	log := visits(7, Start, Start+1000, Start+2000, Start+3000)
	hides(log, 1, 2)
	show, after := log[2], log[3]
	show.Cause, show.From, show.To, show.LastSeen, show.LastActive = schemas.VisibilityChange, schemas.Offline, schemas.Away, Start+1500, Start+1400
	show.LeftOut = 5
	after.Cause, after.From, after.To, after.LastSeen, after.LastActive = schemas.Silent, schemas.Away, schemas.Offline, Start+1500, Start+1400
	write(t, s, log)
	told := func(change *schemas.Transition) *schemas.Transition {
		c := *change
		c.LastSeen, c.LastActive = show.At, show.At
		if c.Cause == schemas.VisibilityChange {
			c.From, c.LeftOut = c.To, 0
		}
		return &c
	}
	want := []*schemas.Transition{told(after), told(show), log[0]}
	for limit := 1; limit <= 3; limit++ {
		wantPages(t, s, store.HistoryQuery{User: 7, Limit: limit}, want)
	}
	users := must.Get(s.Users(t.Context(), []schemas.UserID{7}))(t)
	if u := users[7]; u.Since != after.At || u.LastSeen != show.At || u.LastActive != show.At {
		t.Errorf("of who has shown again is kept %+v", u)
	}
}

func historyAcrossDays(t *testing.T, s Store) {
	var instants []schemas.Millis
	for _, text := range []string{
		"2024-02-28T23:59:59.999Z", "2024-02-29T00:00:00.000Z", "2024-02-29T23:59:59.999Z", "2024-03-01T00:00:00.000Z",
		"2026-10-25T00:59:59.999Z", "2026-10-25T01:00:00.000Z", // clocks in Europe go back
		"2026-12-31T23:59:59.999Z", "2027-01-01T00:00:00.000Z", "2038-01-19T03:14:08.000Z",
	} {
		instant := must.Get(time.Parse(time.RFC3339, text))(t)
		instants = append(instants, schemas.MillisOf(instant))
	}
	log := visits(7, instants...)
	write(t, s, log)
	wantPages(t, s, store.HistoryQuery{User: 7, Limit: 2}, newestFirst(log))
}

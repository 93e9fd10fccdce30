package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

// page is an answer of GET /presence/changes.
type page struct {
	Resync     bool
	Reason     string
	Changes    []schemas.Presence
	Users      []schemas.Presence
	Cursor     string
	More       bool
	StaleSince schemas.Millis `json:"stale_since"`
}

// since asks what was missed after a cursor.
func (w *world) since(tb testing.TB, cursor string, users ...schemas.UserID) (p page) {
	tb.Helper()
	var ids []string
	for _, user := range users {
		ids = append(ids, user.String())
	}
	path := "/presence/changes?user_ids=" + strings.Join(ids, ",")
	if cursor != "" {
		path += "&since=" + cursor
	}
	status, body := w.get(tb, path)
	must.Do(tb, json.Unmarshal([]byte(body), &p))
	if status != http.StatusOK || p.Cursor == "" || p.Resync != (p.Reason != "") || p.Resync != (p.Users != nil) {
		tb.Fatalf("%s is answered with %d %s", path, status, body)
	}
	return p
}

// wantChanges wants a page with these versions.
func wantChanges(tb testing.TB, p page, versions ...schemas.Version) {
	tb.Helper()
	var got []schemas.Version
	for _, c := range p.Changes {
		got = append(got, c.VersionNumber())
	}
	if p.Resync || !slices.Equal(got, versions) {
		tb.Fatalf("changes %v (resync %q), want %v", got, p.Reason, versions)
	}
}

// inEpoch is the n-th version of a log epoch.
func inEpoch(epoch uint32, n int64) schemas.Version { return schemas.NewVersion(epoch, n, 0) }

func TestAReaderGetsTheStatesFirstAndThenEachChangeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	w.happen(t, arrives(1, inEpoch(1, 5), today))
	p := w.since(t, "", 2, 1)
	if p.Reason != "start" || len(p.Users) != 2 || p.Users[0].UserID != 1 || *p.Users[0].State != "online" {
		t.Fatalf("the first answer is %+v", p)
	}
	wantChanges(t, w.since(t, p.Cursor, 1, 2))
	w.happen(t, leaves(1, inEpoch(1, 6), today+1000), arrives(2, inEpoch(1, 7), today+2000), arrives(1, inEpoch(1, 8), today+3000))
	again := w.since(t, p.Cursor, 1, 2)
	wantChanges(t, again, inEpoch(1, 6), inEpoch(1, 8), inEpoch(1, 7))
	if c := again.Changes[0]; *c.State != "offline" || c.Since != today+1000 || c.UserID != 1 {
		t.Errorf("the first change is %+v", c)
	}
	wantChanges(t, w.since(t, again.Cursor, 1, 2))
	wantChanges(t, w.since(t, p.Cursor, 1, 2), inEpoch(1, 6), inEpoch(1, 8), inEpoch(1, 7)) // the same question, the same answer
}

func TestWhatIsNoCursorIsRefusedAndAnothersCursorLeadsToAResync(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t, redistest.Mini(t)), newWorld(t, redistest.Mini(t))
	w.upTo(t, now())
	other.upTo(t, now())
	cursor := w.since(t, "", 1, 2).Cursor
	for _, bad := range []string{"since=", "since=x", "since=" + cursor[:len(cursor)-1], "since=" + cursor + "A", "since=" + cursor + "&since=" + cursor} {
		status, body := w.get(t, "/presence/changes?user_ids=1,2&"+bad)
		if status != http.StatusBadRequest || !strings.Contains(body, `"field":"since"`) {
			t.Errorf("%s is answered with %d %s", bad, status, body)
		}
	}
	for _, path := range []string{"", "?user_ids=0", "?user_ids=1&form=x"} {
		if status, body := w.get(t, "/presence/changes"+path); status != http.StatusBadRequest {
			t.Errorf("%s is answered with %d %s", path, status, body)
		}
	}
	if p := w.since(t, cursor, 1, 3); p.Reason != "unknown" {
		t.Errorf("a cursor of other users is answered with %+v", p)
	}
	if p := other.since(t, cursor, 1, 2); p.Reason != "unknown" {
		t.Errorf("a cursor of another deployment is answered with %+v", p)
	}
}

func TestAReaderOfAUserWhoHidesGetsTheHideAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, offline := range map[string]bool{"as null": false, "as offline": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Mini(t))
			w.hiddenOffline = offline
			w.serve(w.view, w.durable)
			today := now()
			w.upTo(t, today)
			w.happen(t, arrives(1, inEpoch(1, 1), today))
			cursor := w.since(t, "", 1).Cursor
			w.happen(t, leaves(1, inEpoch(1, 2), today+1000), arrives(1, inEpoch(1, 3), today+2000), hides(1, inEpoch(1, 4), today+3000),
				hidden(leaves(1, inEpoch(1, 5), today+4000)))
			p := w.since(t, cursor, 1)
			wantChanges(t, p, inEpoch(1, 4))
			if _, one := w.get(t, "/presence/1"); strings.TrimSpace(one) != string(mustJSON(t, p.Changes[0])) {
				t.Errorf("the reader gets %s, GET says %s", mustJSON(t, p.Changes[0]), one)
			}
			wantChanges(t, w.since(t, p.Cursor, 1))
			w.happen(t, hidden(arrives(1, inEpoch(1, 6), today+5000)))
			wantChanges(t, w.since(t, p.Cursor, 1))
			w.happen(t, shows(1, inEpoch(1, 7), today+6000, schemas.Online))
			wantChanges(t, w.since(t, p.Cursor, 1), inEpoch(1, 7))
			// Who knows nothing of the hide gets what came before it again, and nothing of the hidden time.
			wantChanges(t, w.since(t, cursor, 1), inEpoch(1, 2), inEpoch(1, 3), inEpoch(1, 7))
		})
	}
}

func TestAHideThatOnlyRedisHasKeepsBackWhatTheStoreWouldList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	w.happen(t, arrives(1, inEpoch(1, 1), today))
	cursor := w.since(t, "", 1).Cursor
	log := []*schemas.Transition{leaves(1, inEpoch(1, 2), today+1000), hides(1, inEpoch(1, 3), today+2000)}
	w.durably(t, log[0])
	w.inRedis(t, log...)
	wantChanges(t, w.since(t, cursor, 1), inEpoch(1, 3))
}

func TestAStoreBehindRedisDelaysChangesAndSkipsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	w.happen(t, arrives(1, inEpoch(1, 1), today))
	p := w.since(t, "", 1)
	log := []*schemas.Transition{leaves(1, inEpoch(1, 2), today+1000), arrives(1, inEpoch(1, 3), today+2000), leaves(1, inEpoch(1, 4), today+3000)}
	w.inRedis(t, log...)
	for i := range log {
		w.durably(t, log[i])
		p = w.since(t, p.Cursor, 1)
		wantChanges(t, p, log[i].Version)
		if last := i == len(log)-1; last != (p.StaleSince == 0) {
			t.Errorf("after %d of %d changes the answer is stale since %s", i+1, len(log), p.StaleSince)
		}
	}
}

func TestChangesThatRetentionDroppedLeadToAResync(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	at := now()
	w.upTo(t, at)
	w.happen(t, arrives(1, inEpoch(1, 1), at-2000))
	cursor := w.since(t, "", 1, 2).Cursor
	cut := func(after time.Duration) {
		must.Do(t, w.durable.Maintain(t.Context(), at.Time().Add(400*24*time.Hour+after)))
	}
	cut(-55 * time.Hour)
	wantChanges(t, w.since(t, cursor, 1, 2))
	w.happen(t, arrives(2, inEpoch(1, 2), at+1000))
	wantChanges(t, w.since(t, cursor, 1, 2), inEpoch(1, 2))
	cut(time.Hour)
	if p := w.since(t, cursor, 1, 2); p.Reason != "retention" || len(p.Users) != 2 {
		t.Errorf("the answer is %+v", p)
	}
}

// Where the log is kept for less than a change may be late, a reader gets the changes of a user of whom the log
// still has the change before them.
func TestWhereTheLogIsShortTheChangeBeforeSaysThatNothingIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	at := now()
	w.upTo(t, at)
	gone := arrives(1, inEpoch(1, 1), at-schemas.Millis(72*time.Hour/time.Millisecond))
	w.happen(t, gone, arrives(2, inEpoch(1, 2), at-1000))
	cursor := w.since(t, "", 1, 2).Cursor
	must.Do(t, w.durable.Maintain(t.Context(), at.Time().Add(400*24*time.Hour-25*time.Hour)))
	w.happen(t, leaves(2, inEpoch(1, 3), at), arrives(2, inEpoch(1, 4), at+1000))
	p := w.since(t, cursor, 1, 2)
	wantChanges(t, p, inEpoch(1, 3), inEpoch(1, 4))
	wantChanges(t, w.since(t, p.Cursor, 1, 2))
	behind := []*schemas.Transition{leaves(2, inEpoch(1, 6), at+2000), arrives(2, inEpoch(1, 7), at+3000)}
	for i := range behind { // the store has none of them
		w.inRedis(t, behind[:i+1]...)
		if p := w.since(t, p.Cursor, 1, 2); p.Resync || p.StaleSince == 0 {
			t.Errorf("the store is behind; the answer is %+v", p)
		}
	}
	w.happen(t, leaves(1, inEpoch(1, 5), at+2000))
	lacking := func(when string) {
		t.Helper()
		if p := w.since(t, p.Cursor, 1, 2); p.Reason != "retention" {
			t.Errorf("%s the answer is %+v", when, p)
		}
	}
	lacking("when the change before is not kept")
	must.Do(t, w.durable.Append(t.Context(), store.Batch{Expected: w.written, Next: w.written, Changes: []*schemas.Transition{gone}}))
	lacking("when a rebuild has brought back the change before, perhaps not the next one")
}

// A heartbeat may be a day old when it comes, and what it changes may then wait for another day.
func TestAChangeThatIsPublishedLateIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	at := now()
	w.upTo(t, at)
	cursor := w.since(t, "", 1, 2).Cursor
	w.happen(t, arrives(1, inEpoch(1, 1), at-schemas.MaxAge), arrives(2, inEpoch(1, 2), at-schemas.MaxAge-schemas.Millis(schemas.LongestWait.Milliseconds())))
	p := w.since(t, cursor, 1, 2)
	wantChanges(t, p, inEpoch(1, 1), inEpoch(1, 2))
	if p.StaleSince != 0 {
		t.Errorf("stale since %s", p.StaleSince)
	}
}

func TestAnotherLogEpochLeadsToAResyncOfThoseWhoKnewTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	var of [partitions]schemas.UserID // a user of each partition
	for user := schemas.UserID(200); user > 0; user-- {
		of[schemas.PartitionOf(user, partitions)] = user
	}
	w.happen(t, arrives(of[0], inEpoch(1, 1), today), arrives(of[1], inEpoch(1, 2), today))
	cursor := w.since(t, "", of[:]...).Cursor
	w.happen(t, leaves(of[1], inEpoch(1, 3), today+1000), arrives(of[2], inEpoch(2, 1), today+1000)) // of the last nothing was known
	if p := w.since(t, cursor, of[:]...); p.Resync || len(p.Changes) != 2 {
		t.Fatalf("the answer is %+v", p)
	}
	w.happen(t, leaves(of[0], inEpoch(2, 2), today+2000))
	p := w.since(t, cursor, of[:]...)
	if p.Reason != "log_epoch" {
		t.Fatalf("the answer is %+v", p)
	}
	w.happen(t, arrives(of[0], inEpoch(2, 3), today+3000))
	wantChanges(t, w.since(t, p.Cursor, of[:]...), inEpoch(2, 3))
}

func TestTooMuchToListLeadsToAResyncAndMuchIsPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	cursor := w.since(t, "", 1, 2).Cursor
	log := make([]*schemas.Transition, 0, 5001)
	for i := range 5000 {
		user := schemas.UserID(1 + i%5/4) // the first has four times as many
		log = append(log, arrives(user, inEpoch(1, int64(i)+1), today+schemas.Millis(i)))
	}
	w.happen(t, log...)
	heard := map[schemas.UserID][]schemas.Version{}
	p := page{Cursor: cursor, More: true}
	pages := 0
	for ; p.More; pages++ {
		p = w.since(t, p.Cursor, 1, 2)
		if len(p.Changes) > 1000 {
			t.Fatalf("a page has %d changes", len(p.Changes))
		}
		for _, c := range p.Changes {
			heard[c.UserID] = append(heard[c.UserID], c.VersionNumber())
		}
	}
	if n := len(heard[1]) + len(heard[2]); n != 5000 || pages != 5 || !slices.IsSorted(heard[1]) || !slices.IsSorted(heard[2]) {
		t.Errorf("%d changes on %d pages", n, pages)
	}
	w.happen(t, arrives(1, inEpoch(1, 6000), today+6000))
	if p := w.since(t, cursor, 1, 2); p.Reason != "too_many" {
		t.Errorf("5001 changes are answered with %d and %q", len(p.Changes), p.Reason)
	}
}

// Readers come back at random points of a random log, with a store and a Redis that lag at random.
func TestReadersAtAnyPointGetExactlyTheVisibleChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	later, seed := now()-storetest.Start, 0
	rapid.Check(t, func(r *rapid.T) {
		seed++
		w := newWorld(t, &redistest.Server{Addr: server.Addr, Prefix: fmt.Sprintf("presence%d:", seed)})
		w.upTo(t, now())
		log := storetest.DrawLog(r, 3, rapid.IntRange(1, 40).Draw(r, "length"))
		for _, change := range log {
			change.At, change.LastSeen, change.LastActive = change.At+later, change.LastSeen+later, change.LastActive+later
		}
		users := []schemas.UserID{1, 2, 3}
		inStore, inRedis := 0, 0
		type reader struct {
			cursor string
			last   map[schemas.UserID]schemas.Version
		}
		readers := make([]reader, 3)
		visible := func(user schemas.UserID, after, upTo schemas.Version) (versions []schemas.Version) {
			for _, change := range log {
				if change.User == user && change.Version > after && change.Version <= upTo && change.Visibility != schemas.Nobody {
					versions = append(versions, change.Version)
				}
			}
			return versions
		}
		ask := func(n int) {
			from := &readers[n]
			p := w.since(t, from.cursor, users...)
			from.cursor = p.Cursor
			if p.Resync {
				if p.Reason != "start" || from.last != nil {
					r.Fatalf("resync %s", p.Reason)
				}
				from.last = map[schemas.UserID]schemas.Version{}
				for _, u := range p.Users {
					from.last[u.UserID] = u.VersionNumber()
				}
				return
			}
			heard := map[schemas.UserID][]schemas.Version{}
			for _, c := range p.Changes {
				if c.State == nil { // a hide: what came before it is left out
					if len(heard[c.UserID]) > 0 || c.VersionNumber() <= from.last[c.UserID] {
						r.Fatalf("a hide after %v", heard[c.UserID])
					}
					from.last[c.UserID] = c.VersionNumber()
					continue
				}
				heard[c.UserID] = append(heard[c.UserID], c.VersionNumber())
			}
			for user, versions := range heard {
				newest := versions[len(versions)-1]
				if want := visible(user, from.last[user], newest); !slices.Equal(versions, want) {
					r.Fatalf("user %d: heard %v after %d, want %v", user, versions, from.last[user], want)
				}
				from.last[user] = newest
			}
		}
		for inStore < len(log) || inRedis < len(log) {
			switch n := rapid.IntRange(1, 3).Draw(r, "steps"); rapid.IntRange(0, 3).Draw(r, "who") {
			case 0:
				n = min(n, len(log)-inStore)
				w.durably(t, log[inStore:inStore+n]...)
				inStore += n
			case 1:
				n = min(n, len(log)-inRedis)
				w.inRedis(t, log[inRedis:inRedis+n]...)
				inRedis += n
			default:
				ask(rapid.IntRange(0, len(readers)-1).Draw(r, "reader"))
			}
		}
		current := map[schemas.UserID]schemas.Current{}
		for _, change := range log {
			current[change.User] = current[change.User].After(change)
		}
		for n := range readers {
			ask(n)
			for user, c := range current {
				want := c.Version
				if c.Visibility == schemas.Nobody {
					want = c.Hidden
				}
				if readers[n].last[user] != want {
					r.Fatalf("reader %d has heard of user %d up to %d, want %d", n, user, readers[n].last[user], want)
				}
			}
		}
	})
}

// A status that was written without a change, as of a user of a lost gateway, has a version that no change has.
// A rebuilt Redis has nothing else.
func TestAVersionThatNoChangeHasMakesNobodyStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	w.happen(t, arrives(1, inEpoch(1, 5), today))
	cursor := w.since(t, "", 1, 2).Cursor
	between := func(user schemas.UserID, n int64) schemas.Current {
		return schemas.Current{User: user, State: schemas.Online, Visibility: schemas.Everyone, Version: inEpoch(1, n) - 1}
	}
	must.Get(w.view.Confirm(t.Context(), 2, []schemas.Current{between(1, 9)}, nil, false))(t)
	p := w.since(t, cursor, 1, 2)
	wantChanges(t, p)
	if p.StaleSince != 0 {
		t.Errorf("the answer is stale since %s", p.StaleSince)
	}
	w.want(t, "/presence/1", strings.TrimSpace(string(mustJSON(t, schemas.PresenceOf(schemas.Current{}.After(arrives(1, inEpoch(1, 5), today)), 0, today)))))
	must.Get(w.view.Confirm(t.Context(), 2, []schemas.Current{between(2, 10)}, nil, false))(t)
	if p := w.since(t, cursor, 1, 2); p.StaleSince == 0 {
		t.Error("a user whom the store does not have yet is not stale")
	}
	w.durably(t, arrives(2, inEpoch(1, 7), today))
	p = w.since(t, cursor, 1, 2)
	wantChanges(t, p, inEpoch(1, 7))
	w.happen(t, leaves(1, inEpoch(1, 12), today+1000))
	wantChanges(t, w.since(t, p.Cursor, 1, 2), inEpoch(1, 12))
	if p.StaleSince != 0 {
		t.Errorf("the answer is stale since %s", p.StaleSince)
	}
}

func mustJSON(tb testing.TB, value any) []byte {
	tb.Helper()
	text := must.Get(json.Marshal(value))(tb)
	return text
}

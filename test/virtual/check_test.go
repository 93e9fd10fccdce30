package virtual

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// line is a transition in words.
func line(t *schemas.Transition) string {
	text := fmt.Sprintf("user %d %s→%s at %s, %s by device %d, seen %s, active %s, %v, version %d/%d", t.User, schemas.StateWord(t.From),
		schemas.StateWord(t.To), clock(t.At), schemas.CauseWord(t.Cause), t.Device, clock(t.LastSeen), clock(t.LastActive),
		t.Kinds.States(), t.Version.LogEpoch(), t.Version.Offset())
	if t.Visibility == schemas.Nobody {
		text += ", hidden"
	}
	return text
}

func clock(m schemas.Millis) string {
	if m == 0 {
		return "never"
	}
	return m.Time().UTC().Format("02 15:04:05.000")
}

// likeTheOracle checks that what was committed is what the rules say of the
// records in the heartbeats, and returns it by partition.
func (w *world) likeTheOracle() [][]schemas.Transition {
	w.Helper()
	w.tap.catchUp()
	committed := w.tap.committed()
	partitions := int32(len(committed))
	for p := range partitions {
		want := oracle.Run(oracle.Log{Policy: w.config.Policy, Partition: p, Partitions: partitions, LogEpoch: 1,
			Records: w.counted(p), Users: clusterOf(w.config).Users})
		got := committed[p]
		for i := range max(len(want), len(got)) {
			switch {
			case i >= len(got):
				w.Errorf("partition %d: %d transitions are missing, the first\n  %s", p, len(want)-i, line(&want[i]))
			case i >= len(want):
				w.Errorf("partition %d: %d transitions too many, the first\n  %s", p, len(got)-i, line(&got[i]))
			case got[i] != want[i]:
				w.Errorf("partition %d transition %d is\n  %s\nthe rules say\n  %s", p, i, line(&got[i]), line(&want[i]))
			default:
				continue
			}
			break
		}
	}
	return committed
}

// counted are the heartbeats of a partition without those that the detector has to refuse.
func (w *world) counted(partition int32) []schemas.Record {
	var f schemas.Frame
	checker := clusterOf(w.config).Keys.Checker(schemas.Heartbeats.Name(w.config.Kafka.Prefix), partition)
	return slices.DeleteFunc(slices.Clone(w.tap.records[partition]), func(r schemas.Record) bool {
		return f.Decode(r.Value) == nil && checker.Check(&f, r.Time) != nil
	})
}

// byUser sorts transitions by user, keeping their order.
func byUser(all [][]schemas.Transition) map[schemas.UserID][]schemas.Transition {
	users := map[schemas.UserID][]schemas.Transition{}
	for _, part := range all {
		for _, t := range part {
			users[t.User] = append(users[t.User], t)
		}
	}
	return users
}

// byNumber has the transitions of users by what the endpoints call them; see inBothWorlds.
func (w *world) byNumber(users map[schemas.UserID][]schemas.Transition) map[schemas.UserID][]schemas.Transition {
	if !clusterOf(w.config).Users.Text() {
		return users
	}
	w.Helper()
	found := map[schemas.UserID][]schemas.Transition{}
	for number := schemas.UserID(1); len(found) < len(users) && number <= 1000; number++ {
		if transitions := users[w.id(number)]; transitions != nil {
			found[number] = transitions
		}
	}
	if len(found) != len(users) {
		w.Fatalf("%d users have changes, %d of them have a number", len(users), len(found))
	}
	return found
}

// current is what the transitions of a user make of it.
func current(transitions []schemas.Transition) schemas.Current {
	var c schemas.Current
	for i := range transitions {
		c = store.After(c, &transitions[i])
	}
	return c
}

// storedAre checks the rows of the durable store against the transitions.
func (w *world) storedAre(users map[schemas.UserID][]schemas.Transition) {
	w.Helper()
	w.rowsAre(users)
	config := sqlitestore.Defaults()
	config.Path = w.config.Store.SQLite
	kept := must.Get(sqlitestore.Open(context.Background(), config))(w)
	defer kept.Close()
	var ids []schemas.UserID
	for id := range users {
		ids = append(ids, id)
	}
	rows := must.Get(kept.Users(context.Background(), ids))(w)
	for id, transitions := range users {
		want := current(transitions)
		if rows[id] != want {
			w.Errorf("the store has of user %d\n  %+v, want\n  %+v", id, rows[id], want)
		}
		page, err := kept.History(context.Background(), store.HistoryQuery{User: id, Limit: len(transitions) + 10})
		must.Do(w, err)
		var shown []schemas.Transition
		for _, t := range slices.Backward(transitions) {
			t.Name = schemas.Name{} // which is not in the log of changes
			if t.Visibility != schemas.Nobody && want.Visibility != schemas.Nobody {
				shown = append(shown, t)
			}
		}
		// Newest first is by instant. A change of devices can lie a moment before what
		// was published earlier; see detector/DESIGN.md.
		slices.SortStableFunc(shown, func(a, b schemas.Transition) int {
			return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Version, a.Version))
		})
		// The times of when the user hid are not in it.
		veiled := make([]*schemas.Transition, len(shown))
		for i := range shown {
			veiled[i] = &shown[i]
		}
		must.Do(w, store.RedactHidden(veiled, func(schemas.Millis, schemas.Millis) (schemas.Millis, error) { return 0, nil }))
		var got []schemas.Transition
		for _, t := range page.Changes {
			got = append(got, *t)
		}
		if !slices.Equal(got, shown) {
			w.Errorf("the history of user %d has %d changes, want %d:\n%v\n%v", id, len(got), len(shown), got, shown)
		}
	}
}

// rowsAre checks that the log of changes in the file is just the transitions, what
// hidden users did included, which no endpoint shows.
func (w *world) rowsAre(users map[schemas.UserID][]schemas.Transition) {
	w.Helper()
	db := must.Get(sql.Open("sqlite", w.config.Store.SQLite))(w)
	defer db.Close()
	rows, err := db.Query(`SELECT event_id, user_id, from_state, to_state, cause, at, visibility FROM status_changes ORDER BY user_id, version`)
	must.Do(w, err)
	defer rows.Close()
	var got, want []string
	for rows.Next() {
		var event, from, to, cause, visibility string
		var user, at int64
		must.Do(w, rows.Scan(&event, &user, &from, &to, &cause, &at, &visibility))
		got = append(got, fmt.Sprint(user, " ", event, from, to, cause, at, visibility))
	}
	must.Do(w, rows.Err())
	var ids []schemas.UserID
	for id := range users {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		for _, t := range users[id] {
			want = append(want, fmt.Sprint(int64(id), " ", t.EventID(), schemas.StateWord(t.From), schemas.StateWord(t.To),
				schemas.CauseWord(t.Cause), int64(t.At), schemas.VisibilityWord(t.Visibility)))
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("the store has %d rows, committed are %d transitions\n%s", len(got), len(want), firstDifference(got, want))
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("row %d: %s\n want: %s", i, got[i], want[i])
		}
	}
	return "one is the beginning of the other"
}

// readsAre checks the answers of the endpoints against the transitions: none may be
// stale.
func (w *world) readsAre(base string, users map[schemas.UserID][]schemas.Transition) {
	w.Helper()
	var ids []string
	for id := range users {
		ids = append(ids, id.String())
	}
	batch := w.batch(base, ids...)
	for id, transitions := range users {
		want := schemas.PresenceOf(current(transitions), 0, now())
		want.UserID = id
		status, text := w.ask(http.MethodGet, base+"/presence/"+id.String(), nil)
		// A present user may have been heard since the transition, or that user's gateway lost.
		var heard struct {
			LastSeen   schemas.Millis `json:"last_seen_at"`
			Unsure     schemas.Millis `json:"unsure_since"`
			Coarseness int64          `json:"last_seen_coarseness_ms"`
		}
		if err := json.Unmarshal(text, &heard); err != nil {
			w.Fatalf("GET of user %d: %d %s: %v", id, status, text, err)
		}
		present := want.State != nil && *want.State != schemas.StateWord(schemas.Offline)
		if present && heard.Coarseness > 0 && heard.LastSeen > want.LastSeenAt {
			want.LastSeenAt = heard.LastSeen
		} else {
			heard.Coarseness = 0
		}
		if present {
			want.UnsureSince = heard.Unsure
		}
		wanted := must.Get(json.Marshal(struct {
			schemas.Presence
			Coarseness int64 `json:"last_seen_coarseness_ms,omitempty"`
		}{want, heard.Coarseness}))(w)
		if got := strings.TrimSpace(string(text)); status != http.StatusOK || got != string(wanted) {
			w.Errorf("GET of user %d: %d\n  %s, want\n  %s", id, status, got, wanted)
		}
		if got := batch[id.String()]; (got == nil) != (want.State == nil) || got != nil && *got != *want.State {
			w.Errorf("the batch says of user %d %s, want %s", id, word(got), word(want.State))
		}
	}
}

func word(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// batch reads the states of users. In text mode a comma is part of a name.
func (w *world) batch(base string, ids ...string) map[string]*string {
	w.Helper()
	answer := map[string]*string{}
	separator := ","
	if clusterOf(w.config).Users.Text() {
		separator = "&user_ids="
	}
	for part := range slices.Chunk(ids, 1000) {
		status, text := w.ask(http.MethodGet, base+"/presence/batch?user_ids="+strings.Join(part, separator), nil)
		if status != http.StatusOK {
			w.Fatalf("the batch is answered %d %s", status, text)
		}
		must.Do(w, json.Unmarshal(text, &answer))
	}
	if len(answer) != len(ids) {
		w.Errorf("the batch answers for %d users, asked were %d", len(answer), len(ids))
	}
	return answer
}

// user reads one user.
func (w *world) user(base string, id schemas.UserID) schemas.Presence {
	w.Helper()
	status, text := w.ask(http.MethodGet, base+"/presence/"+id.String(), nil)
	var p schemas.Presence
	if err := json.Unmarshal(text, &p); status != http.StatusOK || err != nil {
		w.Fatalf("GET of user %d: %d %s %v", id, status, text, err)
	}
	return p
}

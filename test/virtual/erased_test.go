package virtual

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// Everything that holds a user is read byte by byte: at once after the erasure, and on the day that
// the receipt names.
func TestOnTheDayOfTheReceiptNothingHoldsTheIDOfAnErasedUser(t *testing.T) {
	long(t)
	const erased, other, never schemas.UserID = 7_777_777_777_777, 8, 9
	inWorld(t, size{partitions: 1, slow: true}, func(w *world) {
		g := openGraph(w, graph.Edge{User: erased, Follower: other}, graph.Edge{User: other, Follower: erased}, graph.Edge{User: other, Follower: never})
		w.config.Expand.Mode = "all"
		p := w.start("all", "one")
		beat := func(user schemas.UserID) { w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile"}) }
		beat(other)
		beat(erased)
		v := w.watch(p.base, erased)
		beat(erased)
		w.until("the user is online", time.Minute, func() bool { return word(w.user(p.base, erased).State) == "online" })
		w.show(p.base, erased, "nobody")
		time.Sleep(10 * time.Second)

		status, text := w.ask(http.MethodDelete, p.base+"/presence/"+erased.String(), nil)
		var receipt struct {
			User schemas.UserID `json:"user_id,string"`
			On   string         `json:"last_copy_gone_on"`
		}
		if err := json.Unmarshal(text, &receipt); err != nil || status != http.StatusOK || receipt.User != erased {
			w.Fatalf("the erasure is answered %d %s (%v)", status, text, err)
		}
		day, err := time.Parse(time.DateOnly, receipt.On)
		if err != nil || day.Before(time.Now().Add(31*24*time.Hour)) {
			w.Fatalf("the receipt is %s", text)
		}
		like := func(path string) bool {
			_, one := w.ask(http.MethodGet, p.base+fmt.Sprintf(path, erased), nil)
			_, another := w.ask(http.MethodGet, p.base+fmt.Sprintf(path, never), nil)
			without := func(text []byte, id schemas.UserID) string {
				return staleSince.ReplaceAllString(strings.ReplaceAll(string(text), `"`+id.String()+`"`, `"U"`), "")
			}
			return without(one, erased) == without(another, never)
		}
		w.until("the user looks as if never seen", time.Minute, func() bool {
			return like("/presence/%d") && like("/presence/%d/history") && like("/presence/batch?user_ids=%d")
		})
		w.until("the store has only the pair", time.Minute, func() bool { return len(w.rowsWith(erased)) == 1 })
		if held := w.rowsWith(erased); held[0] != "erased_users" {
			w.Errorf("rows in %v", held)
		}
		changes := v.changes()
		if last := changes[len(changes)-1]; word(last.State) != "offline" || last.LastSeenAt != 0 || last.LastActiveAt != 0 || len(last.Devices) != 0 {
			w.Errorf("a viewer heard %+v last", last)
		}
		v.stop()
		if n, err := g.Count(w.Context(), erased); err != nil || n != 0 {
			w.Errorf("%d followers (%v)", n, err)
		}
		if n, err := g.Count(w.Context(), other); err != nil || n != 1 {
			w.Errorf("the other user has %d followers (%v)", n, err)
		}
		if found := w.topicsWith(erased); len(found) == 0 {
			w.Error("the search finds nothing in topics that hold the user")
		}
		p.stop()

		w.sleepTo(schemas.MillisOf(day) + 60*second)
		p = w.start("all", "one")
		beat(other)
		w.until("the store forgets the pair", time.Minute, func() bool { return len(w.rowsWith(erased)) == 0 })
		w.until("no topic has the id", time.Minute, func() bool { return len(w.topicsWith(erased)) == 0 })
		for _, key := range w.redis.Server().Keys() {
			if strings.Contains(key, erased.String()) {
				w.Errorf("Redis has %s", key)
			}
		}
		if !like("/presence/%d") || !like("/presence/%d/history") {
			w.Error("the user does not look as if never seen")
		}
		beat(erased)
		w.until("a beat makes a new user", time.Minute, func() bool { return word(w.user(p.base, erased).State) == "online" })
	})
}

// rowsWith are the tables of both SQLite files with a user, one name for each row.
func (w *world) rowsWith(user schemas.UserID) (found []string) {
	w.Helper()
	return w.rowsHolding(user.String())
}

// rowsHolding are the tables of both SQLite files with a text, one name for each row.
func (w *world) rowsHolding(text string) (found []string) {
	w.Helper()
	for _, file := range []string{w.config.Store.SQLite, w.config.Graph.SQLite} {
		db := must.Get(sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)"))(w)
		for _, table := range names(w, db, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`) {
			condition := "0"
			for _, column := range names(w, db, fmt.Sprintf(`SELECT name FROM pragma_table_info('%s')`, table)) {
				condition += fmt.Sprintf(` OR instr(CAST(%q AS TEXT), '%s')`, column, text)
			}
			for range names(w, db, fmt.Sprintf(`SELECT '' FROM %q WHERE %s`, table, condition)) {
				found = append(found, table)
			}
		}
		must.Do(w, db.Close())
	}
	return found
}

func names(w *world, db *sql.DB, query string) (all []string) {
	w.Helper()
	rows := must.Get(db.QueryContext(context.Background(), query))(w)
	defer rows.Close()
	for rows.Next() {
		var name string
		must.Do(w, rows.Scan(&name))
		all = append(all, name)
	}
	must.Do(w, rows.Err())
	return all
}

// topicsWith are the topics with a user, one name for each record. The embedded Kafka does not
// compact: of the status topic, what Kafka's compaction leaves after delete.retention.ms counts.
func (w *world) topicsWith(user schemas.UserID) (found []string) {
	w.Helper()
	forms := [][]byte{user.Key(), binary.LittleEndian.AppendUint64(nil, uint64(user)), protowire.AppendVarint(nil, uint64(user)), []byte(user.String())}
	has := func(b []byte) bool {
		for _, form := range forms {
			if bytes.Contains(b, form) {
				return true
			}
		}
		return false
	}
	for _, spec := range schemas.Topics() {
		newest := map[string]bool{}
		w.read(spec.Topic, func(r *schemas.Record) error {
			holds := has(r.Key) || has(r.Value)
			if spec.Topic == schemas.Statuses {
				newest[string(r.Key)] = holds && r.Value != nil
			} else if holds {
				found = append(found, string(spec.Topic))
			}
			return nil
		})
		for _, holds := range newest {
			if holds {
				found = append(found, string(spec.Topic))
			}
		}
	}
	return found
}

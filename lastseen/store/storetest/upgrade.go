package storetest

import (
	"database/sql"
	"testing"

	"github.com/stillhere/stillhere/lastseen/store"
)

// Program1 are the statements by which a program that knows only schema 1 moves a
// partition's offset: the second and third parameter are the new and the old one.
type Program1 struct{ Insert, Update string }

// Upgrade takes the tables of schema 1 in db to what open makes of them, and has
// programs of both schemas write there by turns.
func Upgrade(t *testing.T, older Program1, db *sql.DB, open func() Store) {
	t.Helper()
	moved := func(statement string, want int64, arguments ...any) {
		t.Helper()
		done, err := db.ExecContext(t.Context(), statement, arguments...)
		must(t, err)
		rows, err := done.RowsAffected()
		must(t, err)
		if rows != want {
			t.Fatalf("%d rows were moved by %s with %v, must be %d", rows, statement, arguments, want)
		}
	}
	moved(older.Insert, 1, 0, 10)
	s := open()
	wantPosition(t, s, store.Position{Next: 10, TopicNext: 10})
	log := RandomLog(1, 4, 40)
	must(t, s.Append(t.Context(), store.Batch{Expected: 10, Next: 20, Topic: first, Changes: log[:20]}))
	wantPosition(t, s, store.Position{Next: 20, Topic: first, TopicNext: 20})

	moved(older.Update, 0, 0, 30, 10)
	moved(older.Update, 1, 0, 30, 20)
	moved(older.Insert, 0, 0, 5)
	moved(older.Insert, 1, 1, 5)
	wantPosition(t, s, store.Position{Next: 30, Topic: first, TopicNext: 20})
	wantNext(t, s, 1, 5)
	wantFenced(t, s.Append(t.Context(), store.Batch{Expected: 20, ExpectedTopic: first, Next: 40, Topic: first}))

	must(t, s.Append(t.Context(), store.Batch{Expected: 30, ExpectedTopic: first, Next: 25, Topic: first, Changes: log[20:]}))
	moved(older.Update, 0, 0, 40, 30)
	wantPosition(t, s, store.Position{Next: 25, Topic: first, TopicNext: 25})
	wantLog(t, s, log)
}

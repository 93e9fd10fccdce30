package storetest

import (
	"database/sql"
	"os"
	"testing"
	"testing/fstest"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver of database/sql

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/store"
)

// program1 is a program that knows only schema 1.
type program1 struct {
	db      *sql.DB
	migrate func(migrate.Plan) (migrate.State, error)
	// insert and update move a partition's offset: the second and third parameter are the new and
	// the old one.
	insert, update string
}

func (p program1) moves(t *testing.T, statement string, want int64, arguments ...any) {
	t.Helper()
	done, err := p.db.ExecContext(t.Context(), statement, arguments...)
	must(t, err)
	rows, err := done.RowsAffected()
	must(t, err)
	if rows != want {
		t.Fatalf("%s with %v has moved %d rows, must move %d", statement, arguments, rows, want)
	}
}

func TestAProgramOfSchema1WritesOnTheNewestSchemaAndIsDistinguished(t *testing.T) {
	t.Parallel()
	connect := func(t *testing.T, driver, address string) *sql.DB {
		db, err := sql.Open(driver, address)
		must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		db := connect(t, "pgx", url)
		upgrade(t, program1{
			db:      db,
			migrate: func(p migrate.Plan) (migrate.State, error) { return migrate.Postgres(t.Context(), db, p) },
			insert:  `INSERT INTO sink_offsets (partition, next_offset) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
			update:  `UPDATE sink_offsets SET next_offset = $2, written_at = now() WHERE partition = $1 AND next_offset = $3`,
		}, "../../pgstore", func() Store { return openPostgres(t, url) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := newFile(t)
		db := connect(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
		upgrade(t, program1{
			db:      db,
			migrate: func(p migrate.Plan) (migrate.State, error) { return migrate.SQLite(t.Context(), db, path, p) },
			insert:  `INSERT INTO sink_offsets (partition, next_offset) VALUES (?1, ?2) ON CONFLICT DO NOTHING`,
			update:  `UPDATE sink_offsets SET next_offset = ?2 WHERE partition = ?1 AND next_offset = ?3`,
		}, "../../sqlitestore", func() Store { return openSQLite(t, path) })
	})
}

// upgrade has programs of schema 1 and of the newest schema write by turns.
func upgrade(t *testing.T, older program1, folder string, open func() Store) {
	t.Helper()
	const name = "00001_presence.sql"
	text, err := os.ReadFile(folder + "/migrations/" + name)
	must(t, err)
	plan := migrate.Plan{Service: "lastseen", Files: fstest.MapFS{name: {Data: text}}, Table: "stillhere_lastseen_migrations", Lock: 1}
	_, err = older.migrate(plan)
	must(t, err)
	older.moves(t, older.insert, 1, 0, 10)

	s := open()
	wantPosition(t, s, store.Position{Next: 10, TopicNext: 10})
	log := RandomLog(1, 4, 40)
	must(t, s.Append(t.Context(), store.Batch{Expected: 10, Next: 20, Topic: first, Changes: log[:20]}))
	wantPosition(t, s, store.Position{Next: 20, Topic: first, TopicNext: 20})

	older.moves(t, older.update, 0, 0, 30, 10)
	older.moves(t, older.update, 1, 0, 30, 20)
	older.moves(t, older.insert, 0, 0, 5)
	older.moves(t, older.insert, 1, 1, 5)
	wantPosition(t, s, store.Position{Next: 30, Topic: first, TopicNext: 20})
	wantNext(t, s, 1, 5)
	wantFenced(t, s.Append(t.Context(), store.Batch{Expected: 20, ExpectedTopic: first, Next: 40, Topic: first}))

	must(t, s.Append(t.Context(), store.Batch{Expected: 30, ExpectedTopic: first, Next: 25, Topic: first, Changes: log[20:]}))
	older.moves(t, older.update, 0, 0, 40, 30)
	wantPosition(t, s, store.Position{Next: 25, Topic: first, TopicNext: 25})
	wantLog(t, s, log)
	if state, err := older.migrate(plan); err != nil || !state.Newer() || state.Schema != 8 {
		t.Errorf("a program of schema 1 finds %+v (%v)", state, err)
	}
}

package sqlitestore

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestAProgramOfSchema1WritesOnTheNewestSchemaAndIsToldApart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "stillhere.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const name = "00001_presence.sql"
	text, err := fs.ReadFile(migrations, "migrations/"+name)
	if err != nil {
		t.Fatal(err)
	}
	program1 := migrate.Plan{Room: "lastseen", Files: fstest.MapFS{name: {Data: text}}, Table: "stillhere_lastseen_migrations"}
	if _, err := migrate.SQLite(t.Context(), db, path, program1); err != nil {
		t.Fatal(err)
	}
	storetest.Upgrade(t, storetest.Program1{
		Insert: `INSERT INTO sink_offsets (partition, next_offset) VALUES (?1, ?2) ON CONFLICT DO NOTHING`,
		Update: `UPDATE sink_offsets SET next_offset = ?2 WHERE partition = ?1 AND next_offset = ?3`,
	}, db, func() storetest.Store { return newStore(t, path) })
	if state, err := migrate.SQLite(t.Context(), db, path, program1); err != nil || !state.Newer() || state.Schema != 3 {
		t.Errorf("a program of schema 1 finds %+v (%v)", state, err)
	}
}

package pgstore

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestAProgramOfSchema1WritesOnTheNewestSchemaAndIsToldApart(t *testing.T) {
	t.Parallel()
	config := newConfig(t)
	settings, err := pgx.ParseConfig(config.URL)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*settings)
	t.Cleanup(func() { _ = db.Close() })
	const name = "00001_presence.sql"
	text, err := fs.ReadFile(migrations, "migrations/"+name)
	if err != nil {
		t.Fatal(err)
	}
	program1, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	program1.Files = fstest.MapFS{name: {Data: text}}
	if _, err := migrate.Postgres(t.Context(), db, program1); err != nil {
		t.Fatal(err)
	}
	storetest.Upgrade(t, storetest.Program1{
		Insert: `INSERT INTO sink_offsets (partition, next_offset) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		Update: `UPDATE sink_offsets SET next_offset = $2, written_at = now() WHERE partition = $1 AND next_offset = $3`,
	}, db, func() storetest.Store {
		if err := Migrate(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	})
	if state, err := migrate.Postgres(t.Context(), db, program1); err != nil || !state.Newer() || state.Schema != 3 {
		t.Errorf("a program of schema 1 finds %+v (%v)", state, err)
	}
}

package pgstore

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stillhere/stillhere/internal/migrate"
)

func TestALogThatAProgramOfSchema3HasCutBeginsWithItsOldestDay(t *testing.T) {
	t.Parallel()
	for rows, want := range map[string]string{
		`INSERT INTO user_presence VALUES (1, now(), now(), now(), 2, 0, 'away', 'everyone', 2)`: "2025-10-07T00:00:00.000Z",
		`SELECT`: "never",
	} {
		config := newConfig(t)
		settings, err := pgx.ParseConfig(config.URL)
		if err != nil {
			t.Fatal(err)
		}
		db := stdlib.OpenDB(*settings)
		program3 := schema
		files := fstest.MapFS{}
		for _, name := range []string{"00001_presence.sql", "00002_topic_id.sql", "00003_left_out.sql"} {
			text, err := fs.ReadFile(migrations, "migrations/"+name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: text}
		}
		program3.Files = files
		_, err = migrate.Postgres(t.Context(), db, program3)
		_, daysErr := db.ExecContext(t.Context(), `CREATE TABLE status_changes_p20251007 PARTITION OF status_changes FOR VALUES FROM ('2025-10-07T00:00:00Z') TO ('2025-10-08T00:00:00Z');
			CREATE TABLE status_changes_p20251009 PARTITION OF status_changes FOR VALUES FROM ('2025-10-09T00:00:00Z') TO ('2025-10-10T00:00:00Z')`)
		_, rowsErr := db.ExecContext(t.Context(), rows)
		if err := errors.Join(err, daysErr, rowsErr, db.Close()); err != nil {
			t.Fatal(err)
		}
		config.AuditRetention = 50_000 * day
		if err := Migrate(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if begins, err := s.LogBegins(t.Context()); err != nil || begins.String() != want {
			t.Errorf("after %s the log begins at %s (%v), want %s", rows, begins, err, want)
		}
		s.Close()
	}
}

package sqlitestore

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

func TestALogThatAProgramOfSchema3HasCutBeginsWithItsOldestChange(t *testing.T) {
	t.Parallel()
	for rows, want := range map[string]func(schemas.Millis) bool{
		`INSERT INTO user_presence VALUES (1, 'away', 5000, 5000, 5000, 2, 'everyone', 2, 0);
		 INSERT INTO status_changes VALUES (1, 5000, 2, 'e', 'online', 'away', 'idle', 'everyone', 1, 2, 5000, 5000, 'p', 0),
		                                   (1, 4000, 1, 'e', 'away', 'online', 'active_again', 'everyone', 1, 2, 4000, 4000, 'p', 0)`: func(at schemas.Millis) bool { return at == 4000 },
		`INSERT INTO user_presence VALUES (1, 'away', 5000, 5000, 5000, 2, 'everyone', 2, 0)`: func(at schemas.Millis) bool { return at > storetest.Start/2 },
		`SELECT 1`: func(at schemas.Millis) bool { return at == 0 },
	} {
		path := filepath.Join(t.TempDir(), "stillhere.db")
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		files := fstest.MapFS{}
		for _, name := range []string{"00001_presence.sql", "00002_topic_id.sql", "00003_left_out.sql"} {
			text, err := fs.ReadFile(migrations, "migrations/"+name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: text}
		}
		_, err = migrate.SQLite(t.Context(), db, path, migrate.Plan{Service: "lastseen", Files: files, Table: "stillhere_lastseen_migrations"})
		_, writeErr := db.ExecContext(t.Context(), rows)
		if err := errors.Join(err, writeErr, db.Close()); err != nil {
			t.Fatal(err)
		}
		if begins, err := newStore(t, path).LogBegins(t.Context()); err != nil || !want(begins) {
			t.Errorf("after %s the log begins at %s (%v)", rows, begins, err)
		}
	}
}

package storetest

import (
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
)

// stores make an empty store of each kind.
var stores = map[string]func(t *testing.T) Store{
	"postgres": func(t *testing.T) Store { return openPostgres(t, pgtest.URL(t)) },
	"sqlite":   func(t *testing.T) Store { return openSQLite(t, newFile(t)) },
}

func TestMain(m *testing.M) { pgtest.Main(m) }

func openPostgres(t *testing.T, url string) Store {
	t.Helper()
	config := pgstore.Defaults()
	config.URL, config.MaxConns = url, 4
	must.Do(t, pgstore.Migrate(t.Context(), config))
	s, err := pgstore.Open(t.Context(), config)
	must.Do(t, err)
	t.Cleanup(s.Close)
	return s
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "stillhere.db") }

func openSQLite(t *testing.T, path string) Store {
	t.Helper()
	config := sqlitestore.Defaults()
	config.Path = path
	s, err := sqlitestore.Open(t.Context(), config)
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	return s
}

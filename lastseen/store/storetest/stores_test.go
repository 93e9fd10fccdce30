package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
)

// stores make an empty store of each kind.
var stores = map[string]func(t *testing.T) Store{
	"postgres": func(t *testing.T) Store { return openPostgres(t, newDatabase(t)) },
	"sqlite":   func(t *testing.T) Store { return openSQLite(t, newFile(t)) },
}

// cluster is the Postgres of these tests; nil, and why, if there is none.
var (
	cluster   *pgtest.Cluster
	noCluster error
)

func TestMain(m *testing.M) {
	code := pgtest.Around(m.Run, func(c *pgtest.Cluster, err error) { cluster, noCluster = c, err })
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// newDatabase is the URL of an empty database.
func newDatabase(t *testing.T) string {
	t.Helper()
	if noCluster != nil {
		t.Skip(noCluster)
	}
	url, err := cluster.URL(t.Context())
	must(t, err)
	return url
}

func openPostgres(t *testing.T, url string) Store {
	t.Helper()
	config := pgstore.Defaults()
	config.URL, config.MaxConns = url, 4
	must(t, pgstore.Migrate(t.Context(), config))
	s, err := pgstore.Open(t.Context(), config)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "stillhere.db") }

func openSQLite(t *testing.T, path string) Store {
	t.Helper()
	config := sqlitestore.Defaults()
	config.Path = path
	s, err := sqlitestore.Open(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

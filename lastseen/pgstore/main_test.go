package pgstore

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/testkit/pgtest"
)

// cluster is the Postgres of this package's tests; nil, and why, when there is
// none.
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

// newConfig is the way to a database of the test's own, without a schema.
func newConfig(tb testing.TB) Config {
	tb.Helper()
	if noCluster != nil {
		tb.Skip(noCluster)
	}
	url, err := cluster.URL(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	config := Defaults()
	config.URL, config.MaxConns = url, 4
	return config
}

// newStore is an empty store in a database of its own.
func newStore(tb testing.TB) *Store {
	tb.Helper()
	config := newConfig(tb)
	if err := Migrate(tb.Context(), config); err != nil {
		tb.Fatal(err)
	}
	s, err := Open(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

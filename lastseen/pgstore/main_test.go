package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/pgtest"
)

// cluster is the Postgres of this package's tests; nil, and why, when there is
// none.
var (
	cluster    *pgtest.Cluster
	noCluster  error
	startLimit = time.Minute
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	cluster, noCluster = pgtest.Start(ctx)
	cancel()
	if noCluster != nil && !errors.Is(noCluster, pgtest.ErrMissing) {
		fmt.Fprintln(os.Stderr, noCluster)
		os.Exit(1)
	}
	code := m.Run()
	if cluster != nil {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
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

package pgstore

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newConfig is the way to a database of the test's own, without a schema.
func newConfig(tb testing.TB) Config {
	tb.Helper()
	config := Defaults()
	config.URL, config.MaxConns = pgtest.URL(tb), 4
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

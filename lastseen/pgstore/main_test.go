package pgstore

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
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
	must.Do(tb, Migrate(tb.Context(), config))
	s := must.Get(Open(tb.Context(), config))(tb)
	tb.Cleanup(s.Close)
	return s
}

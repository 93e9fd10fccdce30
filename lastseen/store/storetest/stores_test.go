package storetest

import (
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
)

// stores make an empty store of each kind.
var stores = map[string]func(t testing.TB) Store{
	"postgres": func(t testing.TB) Store { return openPostgres(t, pgtest.URL(t)) },
	"sqlite":   func(t testing.TB) Store { return openSQLite(t, newFile(t)) },
}

func TestMain(m *testing.M) { pgtest.Main(m) }

func openPostgres(t testing.TB, url string) Store {
	t.Helper()
	config := pgstore.Defaults()
	config.URL, config.MaxConns = url, 4
	must.Do(t, pgstore.Migrate(t.Context(), config))
	s := must.Get(pgstore.Open(t.Context(), config))(t)
	t.Cleanup(s.Close)
	return s
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "stillhere.db") }

func openSQLite(t testing.TB, path string) Store {
	t.Helper()
	config := sqlitestore.Defaults()
	config.Path = path
	s := must.Get(sqlitestore.Open(t.Context(), config))(t)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	return s
}

func BenchmarkAppend(b *testing.B) {
	const rows = 5000
	for kind, open := range stores {
		b.Run(kind, func(b *testing.B) {
			s, log, expected := open(b), RandomLog(9, 1_000_000, rows*b.N), store.Unknown
			b.ResetTimer()
			for i := range b.N {
				next := int64((i + 1) * rows)
				must.Do(b, s.Append(b.Context(), store.Batch{Expected: expected, Next: next, Changes: log[i*rows : (i+1)*rows]}))
				expected = next
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

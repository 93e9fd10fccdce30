package pggraph

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func newGraph(tb testing.TB) *graph.Store {
	tb.Helper()
	config := Defaults()
	config.URL, config.MaxConns = pgtest.URL(tb), 4
	must.Do(tb, Migrate(tb.Context(), config))
	g := must.Get(Open(tb.Context(), config))(tb)
	tb.Cleanup(g.Close)
	return g
}

func settings(g *graph.Store) Config { return g.Driver.(*driver).config }

func TestMigratingTwiceIsHarmless(t *testing.T) {
	g := newGraph(t)
	must.Do(t, Migrate(t.Context(), settings(g)))
}

func TestMigratingIgnoresPoolSettingsInTheURL(t *testing.T) {
	config := settings(newGraph(t))
	joint := "?"
	if strings.Contains(config.URL, "?") {
		joint = "&"
	}
	config.URL += joint + "pool_max_conns=3"
	must.Do(t, Migrate(t.Context(), config))
}

func TestAReadThatIsInterruptedIsAnError(t *testing.T) {
	g := newGraph(t)
	must.Get(g.Add(t.Context(), []graph.Edge{{User: 7, Follower: 8}}))(t)
	pool := g.Driver.(*driver).pool
	page := func(ctx context.Context) error {
		_, err := g.Page(ctx, nil, 7, 0, graph.LastID, 10)
		return err
	}
	follows := func(ctx context.Context) error {
		_, err := g.Follows(ctx, 8, []schemas.UserID{7})
		return err
	}
	for name, read := range map[string]func(context.Context) error{"page": page, "follows": follows} {
		for _, interrupt := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
			lock := must.Get(pool.Begin(t.Context()))(t)
			if err := read(t.Context()); err != nil { // on the connection that the next read gets: it has the statement then
				t.Fatal(err)
			}
			must.Get(lock.Exec(t.Context(), `LOCK TABLE follows`))(t)
			ended := make(chan error, 1)
			go func() { ended <- read(t.Context()) }()
			waiting := `SELECT count(` + interrupt + `(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
			for n := 0; n == 0; {
				must.Do(t, lock.QueryRow(t.Context(), `SELECT pg_stat_clear_snapshot()`).Scan(nil))
				must.Do(t, lock.QueryRow(t.Context(), waiting).Scan(&n))
			}
			if err := <-ended; err == nil {
				t.Errorf("%s: no error after %s", name, interrupt)
			}
			must.Do(t, lock.Rollback(t.Context()))
		}
	}
}

func TestADeletionByOtherProgramsIsReported(t *testing.T) {
	g := newGraph(t)
	must.Get(g.Add(t.Context(), []graph.Edge{{User: 7, Follower: 8}}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	reported, done := make(chan schemas.UserID, 10), make(chan error, 1)
	go func() { done <- g.Watch(ctx, func(u schemas.UserID) { reported <- u }) }()
	<-reported
	must.Do(t, pgtest.Exec(t.Context(), settings(g).URL, "DELETE FROM follows"))
	if u := <-reported; u != 7 {
		t.Errorf("reported of %d", u)
	}
	cancel()
	<-done
}

func TestSettingsThatCannotWorkAreAllNamed(t *testing.T) {
	err := (Config{}).Validate()
	for _, name := range []string{"postgres_url", "postgres_max_conns", "postgres_connect_timeout", "postgres_statement_timeout", "postgres_lock_timeout"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
}

// BenchmarkPage reads 1,000,000 followers in pages of several sizes.
func BenchmarkPage(b *testing.B) {
	g := newGraph(b)
	const followers = 1_000_000
	must.Do(b, pgtest.Exec(b.Context(), settings(g).URL, fmt.Sprintf(
		`INSERT INTO follows SELECT 1, i * 7 FROM generate_series(1, %d) AS i`, followers)))
	must.Do(b, g.Optimize(b.Context()))
	for _, size := range []int{1000, 10_000, 50_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				page, after, n := make([]schemas.UserID, 0, size), schemas.UserID(0), 0
				for {
					var err error
					if page, err = g.Page(b.Context(), page[:0], 1, after, graph.LastID, size); err != nil {
						b.Fatal(err)
					}
					n += len(page)
					if len(page) < size {
						break
					}
					after = page[len(page)-1]
				}
				if n != followers {
					b.Fatal(n)
				}
			}
			b.ReportMetric(followers*float64(b.N)/b.Elapsed().Seconds(), "followers/s")
		})
	}
	b.Run("ranges", func(b *testing.B) {
		for user := schemas.UserID(1); b.Loop(); {
			must.Get(g.Driver.(*driver).pool.Exec(b.Context(), "DELETE FROM follow_ranges"))(b)
			must.Get(g.Ranges(b.Context(), user, 50_000))(b)
		}
	})
}

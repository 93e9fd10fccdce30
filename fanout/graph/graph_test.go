package graph_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func openPostgres(t *testing.T) *graph.Store { return openPostgresWith(t, "") }

func openPostgresWith(t *testing.T, setting string) *graph.Store {
	t.Helper()
	config := pggraph.Defaults()
	config.URL, config.MaxConns = pgtest.URL(t), 4
	if setting != "" {
		config.URL += "&" + setting
	}
	must.Do(t, pggraph.Migrate(t.Context(), config))
	s := must.Get(pggraph.Open(t.Context(), config))(t)
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T) *graph.Store {
	t.Helper()
	s := must.Get(sqlitegraph.Open(t.Context(), filepath.Join(t.TempDir(), "graph.db")))(t)
	t.Cleanup(s.Close)
	return s
}

func TestBadLinesAreNamedByNumberAndTheRestIsLoaded(t *testing.T) {
	t.Parallel()
	s := open(t)
	text := "user_id,follower_id\n1,2\n1\tx\n\n1,1\n0,5\n1;2\n" + strings.Repeat("9", 5000) + "\r\n3, 4\r\n1,9223372036854775808\n5,6"
	bad := map[int64]string{}
	report, err := graph.Load(t.Context(), s, strings.NewReader(text), graph.LoadOptions{
		Name: "x.csv", Size: int64(len(text)), Bad: func(line int64, err error) { bad[line] = err.Error() }})
	if err != nil || report.Added != 3 || report.Bad != 6 || report.Position != int64(len(text)) {
		t.Errorf("%+v, %v", report, err)
	}
	for line, says := range map[int64]string{3: "follower", 5: "itself", 6: "user", 7: "user,follower", 8: "too long", 10: "follower"} {
		if !strings.Contains(bad[line], says) {
			t.Errorf("line %d: %q does not say %q", line, bad[line], says)
		}
	}
}

// failing is a store whose third chunk fails.
type failing struct {
	*graph.Store
	calls int
}

var errBroken = errors.New("the line is cut")

func (f *failing) Load(ctx context.Context, file string, from, to int64, edges []graph.Edge, names graph.Names) (int64, error) {
	if f.calls++; f.calls == 3 {
		return 0, errBroken
	}
	return f.Store.Load(ctx, file, from, to, edges, names)
}

func TestALoadResumesWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	s := &failing{Store: open(t)}
	var text strings.Builder
	for i := 2; i < 102; i++ {
		fmt.Fprintf(&text, "1,%d\n", i)
	}
	text.WriteString("oops\n")
	load := func() (graph.LoadReport, []int64, error) {
		var bad []int64
		r, err := graph.Load(t.Context(), s, strings.NewReader(text.String()), graph.LoadOptions{Name: "x.csv", Size: int64(text.Len()), Chunk: 10,
			Bad: func(line int64, _ error) { bad = append(bad, line) }})
		return r, bad, err
	}
	if r, _, err := load(); !errors.Is(err, errBroken) || r.Added != 20 {
		t.Fatalf("%+v, %v", r, err)
	}
	r, bad, err := load()
	if err != nil || r.Added != 80 || r.Resumed == 0 || !slices.Equal(bad, []int64{101}) {
		t.Fatalf("%+v, bad lines %v, %v", r, bad, err)
	}
	if r, _, err = load(); err != nil || r.Lines != 0 {
		t.Errorf("once more: %+v, %v", r, err)
	}
	n, err := s.Count(t.Context(), 1)
	if err != nil || n != 100 {
		t.Errorf("%d followers, %v", n, err)
	}
}

// counted is a store in memory that counts what it is asked.
type counted struct {
	heads   map[schemas.UserID][]schemas.UserID
	asked   int
	changed chan schemas.UserID
	during  func() // happens while followers are on their way back
}

func (c *counted) Heads(_ context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error) {
	var all [][]schemas.UserID
	for _, u := range users {
		c.asked++
		all = append(all, c.heads[u][:min(most, len(c.heads[u]))])
	}
	if c.during != nil {
		c.during()
	}
	return all, nil
}

func (c *counted) Listed(_ context.Context, users []schemas.UserID) ([]bool, error) {
	listed := make([]bool, len(users))
	for i, u := range users {
		listed[i] = u%2 == 0
	}
	return listed, nil
}

func (c *counted) Watch(ctx context.Context, changed func(schemas.UserID)) error {
	changed(0)
	for {
		select {
		case u := <-c.changed:
			if u < 0 {
				return errBroken
			}
			changed(u)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func inCache(t *testing.T, config graph.CacheConfig, test func(t *testing.T, c *graph.Cache, s *counted)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &counted{heads: map[schemas.UserID][]schemas.UserID{1: {5, 6}, 2: {7}, 4: {1, 2, 3, 5}}, changed: make(chan schemas.UserID)}
		c := graph.NewCache(config, s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		test(t, c, s)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

var cacheConfig = graph.CacheConfig{Most: 3, IDs: 1000, TTL: time.Minute}

func TestTheCacheReadsOnceUntilAChange(t *testing.T) {
	inCache(t, cacheConfig, func(t *testing.T, c *graph.Cache, s *counted) {
		ask := func(what string, want int) {
			t.Helper()
			got, err := c.Of(t.Context(), []schemas.UserID{1, 4, 2, 9})
			if err != nil || !slices.Equal(got[0].IDs, s.heads[1]) || !got[1].Many || len(got[1].IDs) > 0 || !slices.Equal(got[2].IDs, s.heads[2]) || len(got[3].IDs) > 0 {
				t.Fatalf("%s: %+v, %v", what, got, err)
			}
			if s.asked != want {
				t.Fatalf("%s: asked %d times, want %d", what, s.asked, want)
			}
		}
		ask("first", 4)
		ask("again", 4)
		s.heads[1] = []schemas.UserID{5}
		s.changed <- 1
		synctest.Wait()
		ask("one has changed", 5)
		s.changed <- 0
		synctest.Wait()
		ask("all may have changed", 9)
		time.Sleep(time.Minute)
		ask("time has passed", 13)
		s.changed <- -1
		synctest.Wait()
		ask("the watch is broken", 17)
		ask("and nothing is kept", 21)
		time.Sleep(2 * time.Second)
		ask("it stands again", 25)
		ask("and things are kept", 25)
	})
}

func TestAChangeDuringAReadIsNotCached(t *testing.T) {
	inCache(t, cacheConfig, func(t *testing.T, c *graph.Cache, s *counted) {
		s.during = func() {
			s.during, s.heads[1] = nil, []schemas.UserID{5}
			s.changed <- 1
			synctest.Wait()
		}
		for _, want := range [][]schemas.UserID{{5, 6}, {5}} {
			got, err := c.Of(t.Context(), []schemas.UserID{1})
			if err != nil || !slices.Equal(got[0].IDs, want) {
				t.Errorf("%v, %v; want %v", got[0].IDs, err, want)
			}
		}
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	small := cacheConfig
	small.IDs = 40
	inCache(t, small, func(t *testing.T, c *graph.Cache, s *counted) {
		for range 2 {
			for _, u := range []schemas.UserID{1, 2, 4} {
				must.Get(c.Of(t.Context(), []schemas.UserID{u}))(t)
			}
		}
		if s.asked != 6 {
			t.Errorf("asked %d times: three entries do not fit", s.asked)
		}
	})
}

func TestFollowersOfUsersWhoAreNotListedAreNotRead(t *testing.T) {
	listed := cacheConfig
	listed.Listed = true
	inCache(t, listed, func(t *testing.T, c *graph.Cache, s *counted) {
		got, err := c.Of(t.Context(), []schemas.UserID{1, 2, 9, 4})
		if err != nil || got[0].Listed || !got[1].Listed || !slices.Equal(got[1].IDs, s.heads[2]) || !got[3].Many || s.asked != 2 {
			t.Errorf("%+v, %v, asked %d times", got, err, s.asked)
		}
	})
}

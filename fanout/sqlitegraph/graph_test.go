package sqlitegraph

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *graph.Store {
	g := must.Get(Open(t.Context(), filepath.Join(t.TempDir(), "graph.db")))(t)
	t.Cleanup(g.Close)
	return g
}

func TestRangesAreCutAgainWhenUnusedForRangesKept(t *testing.T) {
	g := open(t)
	now := time.Now()
	g.Driver.(*driver).now = func() time.Time { return now }
	edges := []graph.Edge{{User: 1, Follower: 1}, {User: 1, Follower: 2}}
	must.Get(g.Add(t.Context(), edges))(t)
	for _, step := range []struct {
		later time.Duration
		size  int
		want  int
	}{{0, 2, 2}, {graph.RangesKept - time.Millisecond, 1, 2}, {graph.RangesKept, 1, 3}} {
		now = now.Add(step.later)
		ends, err := g.Ranges(t.Context(), 1, step.size)
		if err != nil || len(ends) != step.want {
			t.Errorf("after %s: %d ranges, %v; want %d", step.later, len(ends), err, step.want)
		}
	}
}

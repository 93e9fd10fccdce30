package expand

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// leaving is a graph in which followers leave while it is read.
type leaving struct {
	*graph.Store
	before func(page int32)
	pages  atomic.Int32
}

func (l *leaving) Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error) {
	l.before(l.pages.Add(1))
	return l.Store.Page(ctx, dst, user, after, through, limit)
}

func TestWhoUnfollowsDuringAnExpansionIsDeliveredToOnlyIfThePageWasReadBefore(t *testing.T) {
	t.Parallel()
	store := must.Get(sqlitegraph.Open(t.Context(), filepath.Join(t.TempDir(), "graph.db")))(t)
	defer store.Close()
	edge := func(i int) graph.Edge { return graph.Edge{User: star, Follower: schemas.UserID(2 * (i + 1))} }
	var edges []graph.Edge
	for i := range 12_000 {
		edges = append(edges, edge(i))
	}
	must.Get(store.Add(t.Context(), edges))(t)
	s := newStage(t)
	const size, left = 1_000, 5
	s.Config.JobFollowers, s.slots = size, make(chan struct{}, 1) // one job at a time
	s.Graph = &leaving{Store: store, before: func(page int32) {
		if page != left {
			return
		}
		// Every second follower, of pages that were read and of pages that were not.
		var gone []graph.Edge
		for i := 0; i < len(edges); i += 2 {
			gone = append(gone, edge(i))
		}
		if _, err := store.Remove(t.Context(), gone); err != nil {
			t.Error(err)
		}
	}}
	change := s.comes(star)
	split := s.job(&schemas.FanoutJob{Kind: schemas.SplitJob, Transition: change})
	all := told(t, s.work(t, []schemas.Outgoing{split}))[change.Version]
	// Jobs run in any order, so it is counted how many were read by then.
	stays := len(edges) / 2
	if most := stays + (left-1)*size/2; len(all) < stays || len(all) > most {
		t.Errorf("%d are told, %d follow to the end, and %d may be told who had been read before they left", len(all), stays, most-stays)
	}
}

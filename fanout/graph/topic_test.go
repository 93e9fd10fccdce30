package graph_test

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// unsure is a store whose transactions fail now and then, before or after the commit.
type unsure struct {
	*graph.Store
	fail func() (before, after bool)
}

func (u *unsure) Apply(ctx context.Context, log string, from, to int64, add, remove []graph.Edge, names graph.Names) (int64, int64, error) {
	before, after := u.fail()
	if before {
		return 0, 0, errBroken
	}
	added, removed, err := u.Store.Apply(ctx, log, from, to, add, remove, names)
	if err == nil && after {
		err = errBroken
	}
	return added, removed, err
}

// owner is a process that believes it owns the partition.
type owner struct {
	applier *graph.Applier
	next    int64
}

func (o *owner) start(t *rapid.T, s *unsure, partition int32, end int64) {
	o.applier = graph.NewApplier(s, "presence.graph", nil)
	stored := must.Get(o.applier.Start(context.Background(), stream.Assignment{Partition: partition, LogEnd: end}))(t)
	o.next = stored.Next
}

func TestTheStoreIsWhatTheLastRecordOfEachEdgeSaysWhateverFailsAndWhoeverApplies(t *testing.T) {
	t.Parallel()
	store := open(t)
	partition := int32(0)
	rapid.Check(t, func(t *rapid.T) {
		partition++ // each case has a partition and a user of its own
		user := schemas.UserID(partition)
		log := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) schemas.Follow {
			return schemas.Follow{User: user, Follower: schemas.UserID(rapid.IntRange(1_000_000, 1_000_003).Draw(t, "follower")),
				Removed: rapid.Bool().Draw(t, "removed")}
		}), 1, 40).Draw(t, "log")
		chance := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
		s := &unsure{store, func() (bool, bool) { return chance("before"), chance("after") }}
		end := int64(len(log))
		owners := []*owner{{}, {}}
		for _, o := range owners {
			o.start(t, s, partition, end)
		}
		for steps := 0; owners[0].next < end || owners[1].next < end; steps++ {
			o := owners[rapid.IntRange(0, 1).Draw(t, "owner")]
			to := min(end, o.next+rapid.Int64Range(1, 9).Draw(t, "length"))
			if steps > 500 {
				s.fail = func() (bool, bool) { return false, false }
			}
			err := o.applier.Apply(context.Background(), stream.Batch[schemas.Follow]{Partition: partition, Items: log[o.next:to], Next: to})
			var reset interface{ ResetPosition() bool }
			switch {
			case err == nil:
				o.next = to
			case errors.As(err, &reset) || chance("restart"):
				o.start(t, s, partition, end)
			case !errors.Is(err, errBroken):
				t.Fatal(err)
			}
		}
		want := map[schemas.UserID]bool{}
		for _, f := range log {
			want[f.Follower] = !f.Removed
		}
		for id := schemas.UserID(1_000_000); id <= 1_000_003; id++ {
			if got, err := store.Followers(context.Background(), user, []schemas.UserID{id}); err != nil || got[0] != want[id] {
				t.Fatalf("%d follows: %v, %v; the log %v says %v", id, got, err, log, want[id])
			}
		}
	})
}

func TestALogThatWasCutIsAppliedFromItsStart(t *testing.T) {
	t.Parallel()
	store := open(t)
	apply := func(at stream.Assignment, next int64, edges ...schemas.Follow) int64 {
		t.Helper()
		a := graph.NewApplier(store, "presence.graph", nil)
		stored, err := a.Start(t.Context(), at)
		if err == nil {
			err = a.Apply(t.Context(), stream.Batch[schemas.Follow]{Items: edges, Next: next})
		}
		must.Do(t, err)
		return stored.Next
	}
	apply(stream.Assignment{LogEnd: 100}, 100, schemas.Follow{User: 1, Follower: 2})
	if next := apply(stream.Assignment{LogEnd: 3}, 3, schemas.Follow{User: 1, Follower: 3}); next != 0 {
		t.Errorf("the cut log is read from %d", next)
	}
	if next := apply(stream.Assignment{LogEnd: 9}, 9, schemas.Follow{User: 1, Follower: 4}); next != 3 {
		t.Errorf("then it is read from %d", next)
	}
	if next := apply(stream.Assignment{LogEnd: 9, TopicID: schemas.TopicID{1}}, 9); next != 0 {
		t.Errorf("a recreated topic is read from %d", next)
	}
	page, err := store.Page(t.Context(), nil, 1, 0, graph.LastID, 10)
	same(t, "followers", page, []schemas.UserID{2, 3, 4}, err)
}

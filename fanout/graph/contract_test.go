package graph_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheContractHoldsOnSQLite(t *testing.T) { contract(t, open) }

func TestTheContractHoldsOnPostgres(t *testing.T) { contract(t, openPostgres) }

func TestTheContractHoldsOnPostgresWithoutPreparedStatements(t *testing.T) {
	contract(t, func(t *testing.T) *graph.Store { return openPostgresWith(t, "default_query_exec_mode=exec") })
}

// contract tests stores that open makes, each empty and the test's own.
func contract(t *testing.T, open func(t *testing.T) *graph.Store) {
	for name, test := range map[string]func(*testing.T, *graph.Store){
		"EdgesAreAddedOnceAndRemovedOnce":          edges,
		"PagesComeInOrderAndStopAtTheirBounds":     pages,
		"HeadsComeInTheOrderOfTheUsers":            heads,
		"RangesAreEvenForSkewedIDs":                ranges,
		"RangesStayTheSameWhileInUse":              stay,
		"ALoadResumesAtTheStoredPosition":          load,
		"UsersAreListedAndUnlisted":                list,
		"FollowsAndFollowersComeInTheOrderAsked":   whom,
		"AWatchReportsEveryUnfollow":               watch,
		"ACanceledContextEndsARead":                ended,
		"AnEmptyLoadMovesThePosition":              loadNothing,
		"UsersWithoutFollowersAreNotAnError":       nobody,
		"TheGreatestIDsAreOrdinaryFollowers":       greatest,
		"RangesOfAFewFollowersAreOneThatCoversAll": fewRanges,
		"RangesThatEndAtTheLastFollowerCoverAll":   exactRanges,
		"AForgottenUserHasNoEdgeInEitherDirection": forget,
		"RemovingAnUnknownEdgeRemovesNothing":      removeNothing,
		"AChangeIsAllOrNothing":                    allOrNothing,
		"ALogIsAppliedOnceAndAStaleWriterIsFenced": applyLog,
		"NamesAreKeptUntilTheUserIsForgotten":      keepNames,
		"ASecondNameOfAnIDChangesNothing":          collide,
		"OfTwoNamesAtOneInstantOneIsRefused":       collideAtOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func whom(t *testing.T, s *graph.Store) {
	follow(t, s, 1, 10, 11)
	follow(t, s, 2, 11)
	follows, err := s.Follows(t.Context(), 11, []schemas.UserID{2, 3, 1, 2, 11})
	if err != nil || !slices.Equal(follows, []bool{true, false, true, true, false}) {
		t.Errorf("11 follows %v, %v", follows, err)
	}
	if follows, err := s.Follows(t.Context(), 10, nil); err != nil || len(follows) != 0 {
		t.Errorf("of nobody: %v, %v", follows, err)
	}
	followers, err := s.Followers(t.Context(), 1, []schemas.UserID{12, 11, 1, 10, 11})
	if err != nil || !slices.Equal(followers, []bool{false, true, false, true, true}) {
		t.Errorf("followers of 1: %v, %v", followers, err)
	}
}

func follow(t *testing.T, s *graph.Store, user schemas.UserID, followers ...schemas.UserID) {
	t.Helper()
	all := make([]graph.Edge, len(followers))
	for i, f := range followers {
		all[i] = graph.Edge{User: user, Follower: f}
	}
	must.Get(s.Add(t.Context(), all))(t)
}

func want[T comparable](t *testing.T, what string, got, want T, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Fatalf("%s: %v, %v; want %v", what, got, err, want)
	}
}

func same(t *testing.T, what string, got, want []schemas.UserID, err error) {
	t.Helper()
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s: %v, %v; want %v", what, got, err, want)
	}
}

func edges(t *testing.T, s *graph.Store) {
	n, err := s.Add(t.Context(), []graph.Edge{{User: 1, Follower: 2}, {User: 1, Follower: 3}, {User: 2, Follower: 1}})
	want(t, "added", n, 3, err)
	n, err = s.Add(t.Context(), []graph.Edge{{User: 1, Follower: 3}, {User: 1, Follower: 4}})
	want(t, "added again", n, 1, err)
	n, err = s.Count(t.Context(), 1)
	want(t, "counted", n, 3, err)
	n, err = s.Remove(t.Context(), []graph.Edge{{User: 1, Follower: 3}, {User: 7, Follower: 3}})
	want(t, "removed", n, 1, err)
	page, err := s.Page(t.Context(), nil, 1, 0, graph.LastID, 10)
	same(t, "left", page, []schemas.UserID{2, 4}, err)
}

func removeNothing(t *testing.T, s *graph.Store) {
	n, err := s.Remove(t.Context(), []graph.Edge{{User: 1, Follower: 2}})
	want(t, "removed", n, 0, err)
}

func allOrNothing(t *testing.T, s *graph.Store) {
	follow(t, s, 1, 2, 3)
	added, removed, err := s.Change(t.Context(), []graph.Edge{{User: 1, Follower: 4}, {User: 1, Follower: 4}, {User: 1, Follower: 3}},
		[]graph.Edge{{User: 1, Follower: 2}, {User: 7, Follower: 2}}, nil)
	want(t, "added", added, 1, err)
	want(t, "removed", removed, 1, err)
	// The tables take no id below 1.
	if _, _, err := s.Change(t.Context(), []graph.Edge{{User: 1, Follower: 9}, {User: 1, Follower: -1}}, []graph.Edge{{User: 1, Follower: 3}}, nil); err == nil {
		t.Error("an impossible edge is taken")
	}
	page, err := s.Page(t.Context(), nil, 1, 0, graph.LastID, 10)
	same(t, "left", page, []schemas.UserID{3, 4}, err)
}

func applyLog(t *testing.T, s *graph.Store) {
	const log = "presence.graph x partition 0"
	apply := func(what string, from, to int64, wantErr error, add, remove []graph.Edge) {
		t.Helper()
		if _, _, err := s.Apply(t.Context(), log, from, to, add, remove, nil); !errors.Is(err, wantErr) {
			t.Fatalf("%s: %v, want %v", what, err, wantErr)
		}
	}
	one, two := []graph.Edge{{User: 1, Follower: 2}}, []graph.Edge{{User: 1, Follower: 3}}
	apply("the start", 0, 10, nil, one, nil)
	apply("the start by another writer", 0, 5, graph.ErrConcurrentLoad, two, nil)
	apply("the next", 10, 20, nil, two, one)
	apply("the same again", 10, 20, graph.ErrConcurrentLoad, one, two)
	apply("back to the start of a log that was cut", 20, 4, nil, nil, nil)
	position, err := s.Loaded(t.Context(), log)
	want(t, "position", position, 4, err)
	page, err := s.Page(t.Context(), nil, 1, 0, graph.LastID, 10)
	same(t, "followers", page, []schemas.UserID{3}, err)
}

func pages(t *testing.T, s *graph.Store) {
	follow(t, s, 1, 50, 10, 40, 20, 30)
	follow(t, s, 2, 15)
	begin := []schemas.UserID{7}
	page, err := s.Page(t.Context(), begin, 1, 10, 40, 2)
	same(t, "first page, appended", page, []schemas.UserID{7, 20, 30}, err)
	page, err = s.Page(t.Context(), nil, 1, 30, 40, 2)
	same(t, "last page, bound included", page, []schemas.UserID{40}, err)
}

func heads(t *testing.T, s *graph.Store) {
	follow(t, s, 5, 1, 2, 3)
	follow(t, s, 9, 4)
	got, err := s.Heads(t.Context(), []schemas.UserID{9, 7, 5}, 2)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	same(t, "of 9", got[0], []schemas.UserID{4}, nil)
	same(t, "of 7", got[1], nil, nil)
	same(t, "of 5", got[2], []schemas.UserID{1, 2}, nil)
}

func nobody(t *testing.T, s *graph.Store) {
	page, err := s.Page(t.Context(), nil, 1, 0, graph.LastID, 10)
	same(t, "page", page, nil, err)
	n, err := s.Count(t.Context(), 1)
	want(t, "counted", n, 0, err)
}

func greatest(t *testing.T, s *graph.Store) {
	follow(t, s, graph.LastID, graph.LastID-1, graph.LastID, 1)
	page, err := s.Page(t.Context(), nil, graph.LastID, 1, graph.LastID, 10)
	same(t, "page", page, []schemas.UserID{graph.LastID - 1, graph.LastID}, err)
}

// skewed are ids of three services: one counts from 1, one in steps of 2^32, one
// is random over everything.
func skewed(n int) []schemas.UserID {
	all := make([]schemas.UserID, 0, n)
	x := uint64(88172645463325252)
	for i := range n {
		switch {
		case i < n/2:
			all = append(all, schemas.UserID(i+1))
		case i < n*3/4:
			all = append(all, schemas.UserID(i)<<32)
		default:
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			all = append(all, schemas.UserID(x>>1|1<<62))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func ranges(t *testing.T, s *graph.Store) {
	ids := skewed(4321)
	follow(t, s, 1, ids...)
	follow(t, s, 2, ids[:100]...)
	const size = 500
	ends, err := s.Ranges(t.Context(), 1, size)
	if err != nil || len(ends) != (len(ids)+size-1)/size || ends[len(ends)-1] != graph.LastID {
		t.Fatalf("%d ranges, the last up to %v, %v", len(ends), ends[len(ends)-1:], err)
	}
	var all []schemas.UserID
	after := schemas.UserID(0)
	for i, end := range ends {
		page, err := s.Page(t.Context(), nil, 1, after, end, 10_000)
		if err != nil || len(page) != size && i < len(ends)-1 {
			t.Fatalf("range %d holds %d followers, %v", i, len(page), err)
		}
		all = append(all, page...)
		after = end
	}
	same(t, "all ranges together", all, ids, nil)
}

func fewRanges(t *testing.T, s *graph.Store) {
	follow(t, s, 1, 5, 6)
	ends, err := s.Ranges(t.Context(), 1, 100)
	same(t, "ranges", ends, []schemas.UserID{graph.LastID}, err)
}

func exactRanges(t *testing.T, s *graph.Store) {
	follow(t, s, 1, 5, 6, 7, 8)
	ends, err := s.Ranges(t.Context(), 1, 2)
	same(t, "ranges", ends, []schemas.UserID{6, 8, graph.LastID}, err)
}

func stay(t *testing.T, s *graph.Store) {
	follow(t, s, 1, 10, 20, 30)
	before, err := s.Ranges(t.Context(), 1, 2)
	same(t, "ranges", before, []schemas.UserID{20, graph.LastID}, err)
	follow(t, s, 1, 1, 2, 3, 4)
	after, err := s.Ranges(t.Context(), 1, 3)
	same(t, "ranges a moment later", after, before, err)
}

func load(t *testing.T, s *graph.Store) {
	position, err := s.Loaded(t.Context(), "a.csv")
	want(t, "position of an unknown file", position, 0, err)
	n, err := s.Load(t.Context(), "a.csv", 0, 100, []graph.Edge{{User: 1, Follower: 2}, {User: 1, Follower: 2}, {User: 1, Follower: 3}}, nil)
	want(t, "loaded", n, 2, err)
	n, err = s.Load(t.Context(), "a.csv", 100, 150, []graph.Edge{{User: 1, Follower: 3}, {User: 1, Follower: 4}}, nil)
	want(t, "loaded", n, 1, err)
	if _, err = s.Load(t.Context(), "a.csv", 100, 150, []graph.Edge{{User: 1, Follower: 5}}, nil); !errors.Is(err, graph.ErrConcurrentLoad) {
		t.Fatalf("the same chunk once more: %v", err)
	}
	position, err = s.Loaded(t.Context(), "a.csv")
	want(t, "position", position, 150, err)
	n, err = s.Count(t.Context(), 1)
	want(t, "counted", n, 3, err)
	must.Do(t, s.Optimize(t.Context()))
	n, err = s.Load(t.Context(), "a.csv", 0, 50, nil, nil)
	want(t, "loaded again from the start", n, 0, err)
}

func loadNothing(t *testing.T, s *graph.Store) {
	n, err := s.Load(t.Context(), "a.csv", 0, 10, nil, nil)
	want(t, "loaded", n, 0, err)
	position, err := s.Loaded(t.Context(), "a.csv")
	want(t, "position", position, 10, err)
}

func list(t *testing.T, s *graph.Store) {
	for range 2 {
		must.Do(t, s.List(t.Context(), []schemas.UserID{3, 1}, true))
	}
	must.Do(t, s.List(t.Context(), []schemas.UserID{3}, false))
	got, err := s.Listed(t.Context(), []schemas.UserID{1, 2, 3})
	if err != nil || !slices.Equal(got, []bool{true, false, false}) {
		t.Fatal(got, err)
	}
}

func watch(t *testing.T, s *graph.Store) {
	follow(t, s, 4, 1, 2)
	ctx, cancel := context.WithCancel(t.Context())
	reported, done := make(chan schemas.UserID, 100), make(chan error, 1)
	go func() { done <- s.Watch(ctx, func(u schemas.UserID) { reported <- u }) }()
	next := func(what string) schemas.UserID {
		select {
		case u := <-reported:
			return u
		case <-time.After(10 * time.Second):
			t.Fatalf("no report of %s", what)
		}
		return 0
	}
	if u := next("the watch has begun"); u != 0 {
		t.Fatalf("at first %d", u)
	}
	must.Get(s.Remove(t.Context(), []graph.Edge{{User: 4, Follower: 1}}))(t)
	if u := next("an unfollow"); u != 4 && u != 0 {
		t.Fatalf("the watch reported %d", u)
	}
	follow(t, s, 5, 1)
	for u := next("a follow"); u != 5 && u != 0; u = next("a follow") {
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("the watch ended with %v", err)
	}
}

func ended(t *testing.T, s *graph.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Page(ctx, nil, 1, 0, graph.LastID, 1); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func forget(t *testing.T, s *graph.Store) {
	many := make([]schemas.UserID, 10_001)
	for i := range many {
		many[i] = schemas.UserID(100 + i)
	}
	follow(t, s, 1, many...)
	follow(t, s, 2, 1, 3)
	follow(t, s, 3, 1)
	must.Do(t, s.List(t.Context(), []schemas.UserID{1, 2}, true))
	must.Get(s.Ranges(t.Context(), 1, 1000))(t)
	for range 2 {
		must.Do(t, s.Forget(t.Context(), 1))
	}
	for user, want := range map[schemas.UserID]int64{1: 0, 2: 1, 3: 0} {
		if n, err := s.Count(t.Context(), user); err != nil || n != want {
			t.Errorf("user %d has %d followers (%v), want %d", user, n, err, want)
		}
	}
	if listed, err := s.Listed(t.Context(), []schemas.UserID{1, 2}); err != nil || listed[0] || !listed[1] {
		t.Errorf("listed %v (%v)", listed, err)
	}
	if ranges, err := s.Ranges(t.Context(), 1, 1000); err != nil || len(ranges) != 1 {
		t.Errorf("ranges %v (%v)", ranges, err)
	}
}

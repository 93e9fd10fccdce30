package app

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnErasureThatIsReadAgainLeavesTheNewUsersEdges(t *testing.T) {
	const at = schemas.Millis(1_763_700_000_000)
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "s.db")
	s := must.Get(sqlitestore.Open(t.Context(), config))(t)
	defer s.Close()
	g, err := OpenGraph(t.Context(), Store{SQLite: filepath.Join(t.TempDir(), "g.db")}, pgstore.Defaults())
	must.Do(t, err)
	defer g.Close()
	w := erasingGraph{s, g}
	erased := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Offline, At: at, Cause: schemas.Erased, Visibility: schemas.Everyone, Version: 10, Policy: "p", ErasedUntil: at + 1e9}
	again := &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: at + 5, LastSeen: at + 5, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 20, Policy: "p"}
	must.Do(t, w.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 2, Changes: []*schemas.Transition{erased, again}}))
	follow := func() {
		must.Get(g.Add(t.Context(), []graph.Edge{{User: 1, Follower: 2}, {User: 3, Follower: 1}}))(t)
	}
	follow()
	// A paused owner of the partition, or one with an unknown commit, offers its batch again: it is fenced.
	err = w.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 1, Changes: []*schemas.Transition{erased}})
	if !errors.Is(err, store.ErrFenced) {
		t.Fatal(err)
	}
	if n, _ := g.Count(t.Context(), 1); n != 1 {
		t.Errorf("a fenced batch removed the new user's followers: %d left", n)
	}
	follow()
	// A sink whose offset was reset.
	must.Do(t, w.Append(t.Context(), store.Batch{Expected: 2, Next: 2, Changes: []*schemas.Transition{erased, again}}))
	if n, _ := g.Count(t.Context(), 1); n != 1 {
		t.Errorf("an erasure that was read again removed the new user's followers: %d left", n)
	}
}

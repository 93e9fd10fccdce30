package main

import (
	"path/filepath"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// graph opens the store to measure on.
func (l *lab) graph(t *loadtest.T) *graph.Store {
	if l.Postgres != "" {
		config := pggraph.Defaults()
		config.URL = l.Postgres
		t.Check(pggraph.Migrate(t.Context(), config))
		store, err := pggraph.Open(t.Context(), config)
		t.Check(err)
		t.Cleanup(func() error { store.Close(); return nil })
		t.Note("The graph is in Postgres.")
		return store
	}
	store, err := sqlitegraph.Open(t.Context(), filepath.Join(t.TempDir(), "graph.db"))
	t.Check(err)
	t.Cleanup(func() error { store.Close(); return nil })
	t.Note("The graph is in SQLite.")
	return store
}

// fillGraph makes the edges, unless a run before has.
func fillGraph(t *loadtest.T, store *graph.Store) {
	n, err := store.Count(t.Context(), fanoutStar)
	t.Check(err)
	if n == int64(t.Users) {
		return
	}
	if n != 0 {
		t.Fatalf("the store holds a bench's graph with %d followers, not %d: use another database or --users %d", n, t.Users, n)
	}
	edges, position := make([]graph.Edge, 0, fanoutChunk), int64(0)
	add := func(user, follower schemas.UserID, last bool) {
		edges = append(edges, graph.Edge{User: user, Follower: follower})
		if len(edges) < fanoutChunk && !last {
			return
		}
		t.Progress.Say("  %d of %d edges written", position, t.Users)
		next := position + int64(len(edges))
		_, err := store.Load(t.Context(), "bench", position, next, edges, nil)
		t.Check(err)
		edges, position = edges[:0], next
	}
	for i := range fanoutSmall {
		for j := range fanoutFew {
			add(fanoutStar+1+schemas.UserID(i), schemas.UserID(1+(i*7919+j*104729)%t.Users), false)
		}
	}
	for i := 1; i <= t.Users; i++ {
		add(fanoutStar, schemas.UserID(i), i == t.Users)
	}
	t.Check(store.Optimize(t.Context()))
}

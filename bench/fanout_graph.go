package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// graph opens the store to measure on.
func (l *lab) graph(ctx context.Context) (store *graph.Store, name string, closeStore func(), err error) {
	if l.Postgres != "" {
		config := pggraph.Defaults()
		config.URL = l.Postgres
		if err := pggraph.Migrate(ctx, config); err != nil {
			return nil, "", nil, err
		}
		pg, err := pggraph.Open(ctx, config)
		if err != nil {
			return nil, "", nil, err
		}
		return pg, "Postgres", pg.Close, nil
	}
	folder, err := os.MkdirTemp("", "stillhere-bench-")
	if err != nil {
		return nil, "", nil, err
	}
	lite, err := sqlitegraph.Open(ctx, filepath.Join(folder, "graph.db"))
	if err != nil {
		return nil, "", nil, errors.Join(err, os.RemoveAll(folder))
	}
	return lite, "SQLite", func() { lite.Close(); _ = os.RemoveAll(folder) }, nil
}

// fillGraph makes the edges, unless a run before has.
func fillGraph(ctx context.Context, o *loadtest.Options, store *graph.Store) error {
	n, err := store.Count(ctx, fanoutStar)
	if err != nil || n == int64(o.Users) {
		return err
	}
	if n != 0 {
		return fmt.Errorf("the store holds a bench's graph with %d followers, not %d: use another database or --users %d", n, o.Users, n)
	}
	edges, place := make([]graph.Edge, 0, fanoutChunk), int64(0)
	add := func(user, follower schemas.UserID, last bool) error {
		edges = append(edges, graph.Edge{User: user, Follower: follower})
		if len(edges) < fanoutChunk && !last {
			return nil
		}
		o.Progress.Say("  %d of %d edges written", place, o.Users)
		next := place + int64(len(edges))
		_, err := store.Load(ctx, "bench", place, next, edges)
		edges, place = edges[:0], next
		return err
	}
	for i := range fanoutSmall {
		for j := range fanoutFew {
			if err := add(fanoutStar+1+schemas.UserID(i), schemas.UserID(1+(i*7919+j*104729)%o.Users), false); err != nil {
				return err
			}
		}
	}
	for i := 1; i <= o.Users; i++ {
		if err := add(fanoutStar, schemas.UserID(i), i == o.Users); err != nil {
			return err
		}
	}
	return store.Optimize(ctx)
}

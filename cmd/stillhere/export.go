package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
)

// exportCommand writes everything that is stored about a user.
type exportCommand struct {
	User string `arg:"" help:"The user."`
	storeCommand
}

// Help is printed below the list of flags.
func (*exportCommand) Help() string {
	return `Writes JSON lines to standard output, each with a type. presence: what is known now, hidden or not. change: a change in the log of changes, oldest first. follower: a user who follows this one. follows: a user whom this one follows. With --sqlite, the follower graph is graph.db in the same directory, as dev keeps it. What the topics hold besides is the same data, for as long as their retention.`
}

// Run writes.
func (c *exportCommand) Run(ctx context.Context) (err error) {
	user, err := schemas.ParseUserID("user", c.User)
	if err != nil {
		return misused(err)
	}
	from, closeStore, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	edges, err := c.graph(ctx)
	if err != nil {
		return err
	}
	if edges != nil {
		defer edges.Close()
	}
	return dataset.Export(ctx, from, edges, user, os.Stdout)
}

// graph opens the follower graph beside the store; nil: there is none.
func (c *exportCommand) graph(ctx context.Context) (*graph.Store, error) {
	store := app.Store{Postgres: c.Postgres}
	if c.SQLite != "" {
		store.SQLite = filepath.Join(filepath.Dir(c.SQLite), app.GraphFile)
		if _, err := os.Stat(store.SQLite); err != nil {
			return nil, nil //nolint:nilerr,nilnil // a store without a graph
		}
	}
	return app.OpenGraph(ctx, store, c.postgres())
}

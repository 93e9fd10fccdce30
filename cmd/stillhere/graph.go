package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/progress"
)

// graphCommand manages the follower graph.
type graphCommand struct {
	Edges     graphEdges     `cmd:"" help:"Add followers of a user, or remove them: graph edges USER FOLLOWER… Or add the edges of a file."`
	Followers graphFollowers `cmd:"" help:"Print the followers of a user, one per line, or their number."`
	List      graphUsers     `cmd:"" help:"Add users to the list whose followers receive changes when fanout runs with --followers listed, or remove them."`
}

// graphStore says where the follower graph is.
type graphStore struct {
	SQLite        string `name:"sqlite" help:"SQLite file of the graph instead of Postgres. Default without --postgres: stillhere-data/graph.db, the file of dev." type:"path" group:"Store:"`
	postgresFlags `group:"Postgres:"`
	namedFlags    `group:"Users:"`
}

func (g graphStore) open(ctx context.Context) (*graph.Store, error) {
	store := app.Store{Postgres: g.Postgres, SQLite: g.SQLite}
	if g.Postgres == "" && g.SQLite == "" {
		store.SQLite = filepath.Join("stillhere-data", app.GraphFile)
		if _, err := os.Stat(filepath.Dir(store.SQLite)); err != nil {
			return nil, errors.New("--postgres or --sqlite is needed: there is no data of dev in this folder")
		}
	}
	return app.OpenGraph(ctx, store, g.postgres())
}

// existing is with for commands that only read or remove: for them, a file that does not exist
// is misspelt, and not an empty graph.
func (g graphStore) existing(ctx context.Context, do func(*graph.Store, naming) error) error {
	if g.SQLite != "" {
		if _, err := os.Stat(g.SQLite); err != nil {
			return fmt.Errorf("--sqlite: %w", err)
		}
	}
	return g.with(ctx, do)
}

func (g graphStore) with(ctx context.Context, do func(*graph.Store, naming) error) error {
	of, err := g.naming()
	if err != nil {
		return err
	}
	store, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := checkNamed(ctx, of.users, store); err != nil {
		return err
	}
	return do(store, of)
}

// badShown is how many bad lines are printed; the rest are counted.
const badShown = 20

// load adds the edges of the file.
func (c *graphEdges) load(ctx context.Context) error {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	line, begun, bad := progress.Stderr(), time.Now(), 0
	return c.with(ctx, func(store *graph.Store, of naming) error {
		report, err := graph.Load(ctx, store, file, graph.LoadOptions{
			Name: filepath.Base(c.File), Size: info.Size(), FromStart: c.FromStart, Users: of.users, Tenant: of.tenant,
			Bad: func(number int64, err error) {
				if bad++; bad <= badShown {
					line.Note("line %d: %v", number, err)
				}
			},
			Progress: func(r graph.LoadReport) {
				line.Say("%s", loadBar(r.Position, info.Size(), r.Lines, time.Since(begun)))
			},
		})
		line.Clear()
		if bad > badShown {
			line.Note("... and %d more bad lines", bad-badShown)
		}
		if report.Resumed > 0 {
			line.Note("continued at byte %d, where the last load stopped; --from-start starts at the beginning", report.Resumed)
		}
		fmt.Printf("%d lines, %d edges added, %d existed, %d lines skipped, in %s\n", report.Lines, report.Added,
			report.Edges-report.Added, report.Bad, time.Since(begun).Round(time.Millisecond))
		if err == nil && report.Edges == 0 && report.Bad > 0 {
			err = fmt.Errorf("no line of %s is user,follower", c.File)
		}
		return err
	})
}

// loadBar shows how far a file is.
func loadBar(place, size, lines int64, took time.Duration) string {
	const width = 30
	share := float64(place) / float64(max(size, 1))
	full := int(share * width)
	text := fmt.Sprintf("[%s%s] %3.0f%%  %d lines", strings.Repeat("=", full), strings.Repeat(" ", width-full), share*100, lines)
	if s := took.Seconds(); s > 0.5 {
		text += fmt.Sprintf("  %.0f/s", float64(lines)/s)
	}
	return text
}

// graphEdges are edges to add or remove.
type graphEdges struct {
	graphStore
	User      string   `arg:"" optional:"" help:"The user who is followed."`
	Followers []string `arg:"" optional:"" help:"The followers."`
	Remove    bool     `help:"Remove the followers." env:"-"`
	File      string   `help:"Add the edges of this file instead, with a line user,follower for each. An interrupted load resumes where it stopped. With --ids text a name with commas or quotes is in quotes, as in CSV, or a tab is between both names." type:"existingfile" env:"-"`
	FromStart bool     `help:"Start from the beginning of --file, even if a part was loaded before." env:"-"`
}

func (c *graphEdges) edges(of naming) ([]graph.Edge, graph.Names, error) {
	all, names := make([]graph.Edge, 0, len(c.Followers)), graph.Names{}
	user, err := of.follower(names, "<user>", c.User)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range c.Followers {
		follower, err := of.follower(names, fmt.Sprintf("follower %q", text), text)
		if err == nil && follower == user {
			err = misused(fmt.Errorf("user %s cannot follow itself", text))
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, graph.Edge{User: user, Follower: follower})
	}
	return all, names, nil
}

// Run adds or removes them.
func (c *graphEdges) Run(ctx context.Context) error {
	switch {
	case c.File != "" && (c.User != "" || c.Remove):
		return misused(errors.New("--file: a file only adds edges, and goes with neither users nor --remove"))
	case c.File != "":
		return c.load(ctx)
	case len(c.Followers) == 0:
		return misused(errors.New("a user and followers are needed, or --file"))
	}
	with, done := c.with, "added"
	if c.Remove {
		with, done = c.existing, "removed"
	}
	return with(ctx, func(store *graph.Store, of naming) error {
		edges, names, err := c.edges(of)
		if err != nil {
			return err
		}
		var n int64
		if c.Remove {
			n, err = store.Remove(ctx, edges)
		} else {
			n, _, err = store.Change(ctx, edges, nil, names)
		}
		if err == nil {
			fmt.Printf("%d %s\n", n, done)
		}
		return err
	})
}

// graphUsers are users of the list.
type graphUsers struct {
	graphStore
	Users  []string `arg:"" help:"The users."`
	Remove bool     `help:"Remove them from the list." env:"-"`
}

// Run adds them to the list or removes them.
func (c *graphUsers) Run(ctx context.Context) error {
	with := c.with
	if c.Remove {
		with = c.existing
	}
	return with(ctx, func(store *graph.Store, of naming) error {
		ids := make([]schemas.UserID, len(c.Users))
		for i, text := range c.Users {
			var err error
			if ids[i], _, err = of.user(fmt.Sprintf("user %q", text), text); err != nil {
				return err
			}
		}
		return store.List(ctx, ids, !c.Remove)
	})
}

// Package sqlitegraph stores in one SQLite file who follows whom: the graph of dev, which has no
// server for it.
package sqlitegraph

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/sqlite"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed migrations/*.sql
var migrations embed.FS

// driver is a graph.Driver. Other processes may use the file at the same time; writers wait for
// each other.
type driver struct {
	*sqlite.DB
	now func() time.Time
}

// maxReaders is more than the workers of a process hold at the same time: otherwise the planner
// would wait for them.
const maxReaders = 8

// busyTimeout is how long a connection waits for another's lock.
const busyTimeout = 10 * time.Second

// Open opens or creates the file and brings its schema up to date.
func Open(ctx context.Context, path string) (*graph.Store, error) {
	if path == "" {
		return nil, errors.New("sqlite_path: must not be empty")
	}
	plan := migrate.Plan{Service: "fanout", Files: migrate.Folder(migrations), Table: "stillhere_fanout_migrations"}
	db, err := sqlite.Open(ctx, path, busyTimeout, maxReaders, plan)
	if err != nil {
		return nil, fmt.Errorf("opening the graph %s: %w", path, err)
	}
	return &graph.Store{Driver: &driver{DB: db, now: time.Now}}, nil
}

func (g *driver) Close() { _ = g.DB.Close() } // everything is committed

func (g *driver) Optimize(ctx context.Context) error {
	if _, err := g.Writer.ExecContext(ctx, `PRAGMA optimize`); err != nil {
		return fmt.Errorf("optimizing the graph: %w", err)
	}
	return nil
}

// watchInterval is how often Watch asks whether another connection has written.
const watchInterval = 250 * time.Millisecond

// Watch asks SQLite whether another connection, such as this store's writer, has changed the file.
// It cannot know whose followers changed, so it always reports all users.
func (g *driver) Watch(ctx context.Context, changed func(schemas.UserID)) error {
	conn, err := g.Readers.Conn(ctx)
	if err != nil {
		return fmt.Errorf("watching follows: %w", err)
	}
	defer func() { _ = conn.Close() }()
	last := int64(-1)
	for range tick.Now(ctx, watchInterval) {
		var version int64
		if err := conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version); err != nil {
			return fmt.Errorf("watching follows: %w", err)
		}
		if version != last {
			last = version
			changed(0)
		}
	}
	return ctx.Err()
}

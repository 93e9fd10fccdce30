// Package sqlitegraph stores in one SQLite file who follows whom: the graph of dev, which has no
// server for it.
package sqlitegraph

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/sqlite"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed migrations/*.sql
var migrations embed.FS

// driver is a graph.Driver. Other processes may use the file at the same time; writers wait for
// each other.
type driver struct {
	writer  *sql.DB // one connection
	readers *sql.DB
	now     func() time.Time
	schema  migrate.State // of the file when it was opened
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
	g := &driver{now: time.Now}
	if err := g.open(ctx, path); err != nil {
		g.Close()
		return nil, fmt.Errorf("opening the graph %s: %w", path, err)
	}
	return &graph.Store{Driver: g}, nil
}

func (g *driver) open(ctx context.Context, path string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	if g.writer, err = sql.Open("sqlite", sqlite.Address(path, "immediate", busyTimeout)); err != nil {
		return err
	}
	g.writer.SetMaxOpenConns(1)
	g.schema, err = migrate.SQLite(ctx, g.writer, path, migrate.Plan{Service: "fanout", Files: files, Table: "stillhere_fanout_migrations"})
	if err != nil {
		return err
	}
	if g.readers, err = sql.Open("sqlite", sqlite.Address(path, "deferred", busyTimeout)); err != nil {
		return err
	}
	g.readers.SetMaxOpenConns(maxReaders)
	g.readers.SetMaxIdleConns(maxReaders)
	return g.readers.PingContext(ctx)
}

func (g *driver) Schema(context.Context) (migrate.State, error) { return g.schema, nil }

func (g *driver) Close() {
	for _, db := range []*sql.DB{g.readers, g.writer} {
		if db != nil {
			_ = db.Close() // everything is committed
		}
	}
}

func (g *driver) Ping(ctx context.Context) error { return g.readers.PingContext(ctx) }

func (g *driver) Optimize(ctx context.Context) error {
	if _, err := g.writer.ExecContext(ctx, `PRAGMA optimize`); err != nil {
		return fmt.Errorf("optimizing the graph: %w", err)
	}
	return nil
}

// watchInterval is how often Watch asks whether another connection has written.
const watchInterval = 250 * time.Millisecond

// Watch asks SQLite whether another connection, such as this store's writer, has changed the file.
// It cannot know whose followers changed, so it always reports all users.
func (g *driver) Watch(ctx context.Context, changed func(schemas.UserID)) error {
	conn, err := g.readers.Conn(ctx)
	if err != nil {
		return fmt.Errorf("watching follows: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for last := int64(-1); ; {
		var version int64
		if err := conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version); err != nil {
			return fmt.Errorf("watching follows: %w", err)
		}
		if version != last {
			last = version
			changed(0)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

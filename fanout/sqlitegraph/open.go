// Package sqlitegraph keeps who follows whom in one SQLite file: the graph of a
// process that has nothing else at hand.
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

// Graph is a graph.Store on a SQLite file. Other processes may use the file at
// the same time; writes wait for one another.
type Graph struct {
	writer  *sql.DB // one connection
	readers *sql.DB
	now     func() time.Time
	schema  migrate.State
}

var _ graph.Store = (*Graph)(nil)

// Open opens the file, making it when it is not there, and brings its schema up to
// date.
func Open(ctx context.Context, path string) (*Graph, error) {
	if path == "" {
		return nil, errors.New("sqlite_path: must not be empty")
	}
	g := &Graph{now: time.Now}
	if err := g.open(ctx, path); err != nil {
		g.Close()
		return nil, fmt.Errorf("opening the graph %s: %w", path, err)
	}
	return g, nil
}

func (g *Graph) open(ctx context.Context, path string) error {
	// More than the workers of a process hold at the same time, or the planner would
	// wait for them.
	const readers = 8
	var err error
	if g.writer, err = sql.Open("sqlite", sqlite.Address(path, "immediate", busy)); err != nil {
		return err
	}
	g.writer.SetMaxOpenConns(1)
	if err := g.migrate(ctx, path); err != nil {
		return err
	}
	if g.readers, err = sql.Open("sqlite", sqlite.Address(path, "deferred", busy)); err != nil {
		return err
	}
	g.readers.SetMaxOpenConns(readers)
	g.readers.SetMaxIdleConns(readers)
	return g.readers.PingContext(ctx)
}

// busy is how long a connection waits for another's lock.
const busy = 10 * time.Second

// migrate brings the schema up to date, or finds it to be that of a newer program.
func (g *Graph) migrate(ctx context.Context, path string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	g.schema, err = migrate.SQLite(ctx, g.writer, path, migrate.Plan{Service: "fanout", Files: files, Table: "stillhere_fanout_migrations"})
	return err
}

// Schema tells how the tables stood to this program when the file was opened.
func (g *Graph) Schema(context.Context) (migrate.State, error) { return g.schema, nil }

// Close waits for running statements and closes the file.
func (g *Graph) Close() {
	for _, db := range []*sql.DB{g.readers, g.writer} {
		if db != nil {
			_ = db.Close() // everything that was promised is committed
		}
	}
}

// Ping tells whether the file can be read.
func (g *Graph) Ping(ctx context.Context) error { return g.readers.PingContext(ctx) }

// lookEvery is how often Watch looks whether another connection has written.
const lookEvery = 250 * time.Millisecond

// Watch asks SQLite whether the file was changed by another connection, this
// store's own writer included, so that it never knows whose followers; see
// graph.Store.
func (g *Graph) Watch(ctx context.Context, changed func(schemas.UserID)) error {
	conn, err := g.readers.Conn(ctx)
	if err != nil {
		return fmt.Errorf("watching follows: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ticker := time.NewTicker(lookEvery)
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

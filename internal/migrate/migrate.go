package migrate

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// ErrTooOld says that the tables are those of a newer program that has given up
// what this one needs.
var ErrTooOld = errors.New("this program is too old for the tables")

// Plan is the schema of one service in a database.
type Plan struct {
	// Service names it in errors and in the table of bounds.
	Service string
	// Files are its migrations, at the root.
	Files fs.FS
	// Table keeps what was applied; no other service may use it.
	Table string
	// Lock is the key of the advisory lock on Postgres; no other service may use it.
	Lock int64
}

// Folder is the folder migrations of the files that a program embeds.
func Folder(files embed.FS) fs.FS {
	folder, err := fs.Sub(files, "migrations")
	if err != nil { // the name is valid
		panic(err)
	}
	return folder
}

// State is how the tables and this program stand to one another.
type State struct {
	// Schema is the number of the newest migration that was applied, Known that of
	// the newest which this program has.
	Schema, Known int64
	// Least is the oldest Known of a program that can use the tables.
	Least int64
}

// Newer tells whether the tables are those of a newer program, with which this one
// can live.
func (s State) Newer() bool { return s.Schema > s.Known }

// Behind tells whether there are migrations to be applied.
func (s State) Behind() bool { return s.Schema < s.Known }

func (s State) String() string {
	return fmt.Sprintf("the tables are at schema %d, this program knows schema %d, programs that know schema %d or newer can use them", s.Schema, s.Known, s.Least)
}

// Question asks, with the room as its argument, for the two numbers that Compare
// takes. Where there is no such table or no row, nothing was migrated: both are 0.
const Question = `SELECT schema, lives_with FROM stillhere_schemas WHERE room = $1`

// Compare tells how this program stands to tables of which Question says so. The
// error is ErrTooOld, or a fault of the files.
func (p Plan) Compare(schema, least int64) (State, error) {
	state, err := p.known()
	if err != nil {
		return state, err
	}
	state.Schema, state.Least = schema, least
	if least > state.Known {
		return state, fmt.Errorf("%s: %w: %s; start a newer program", p.Service, ErrTooOld, state)
	}
	return state, nil
}

// Postgres brings the tables up to date. db ends up as it was; other processes that
// do the same are waited for, up to two minutes.
func Postgres(ctx context.Context, db *sql.DB, plan Plan) (State, error) {
	const retrySeconds, attempts = 1, 120
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(plan.Lock), lock.WithLockTimeout(retrySeconds, attempts))
	if err != nil {
		return State{}, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return State{}, err
	}
	defer func() { _ = conn.Close() }() // its locks end with it
	if err := locker.SessionLock(ctx, conn); err != nil {
		return State{}, fmt.Errorf("waiting for another process that migrates: %w", err)
	}
	state, err := plan.up(ctx, db, goose.DialectPostgres)
	return state, errors.Join(err, locker.SessionUnlock(context.WithoutCancel(ctx), conn))
}

// SQLite brings the tables in the file at path up to date, which db has open. Other
// processes that do the same are waited for, up to a minute.
func SQLite(ctx context.Context, db *sql.DB, path string, plan Plan) (state State, err error) {
	err = withLock(ctx, path, func() error {
		state, err = plan.up(ctx, db, goose.DialectSQLite3)
		return err
	})
	return state, err
}

// up does the work, alone.
func (p Plan) up(ctx context.Context, db *sql.DB, dialect goose.Dialect) (State, error) {
	bound := schemaTable{db, p.Service}
	if err := bound.make(ctx); err != nil {
		return State{}, err
	}
	schema, least, err := bound.read(ctx)
	if err != nil {
		return State{}, err
	}
	state, err := p.Compare(schema, least)
	if err != nil || state.Newer() {
		return state, err
	}
	ours, err := p.known()
	if err != nil {
		return state, err
	}
	state.Least = max(least, ours.Least)
	if err := bound.write(ctx, state); err != nil {
		return state, err
	}
	provider, err := goose.NewProvider(dialect, db, p.Files, goose.WithTableName(p.Table), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return state, err
	}
	if _, err := provider.Up(ctx); err != nil {
		return state, err
	}
	state.Schema = state.Known
	return state, bound.write(ctx, state)
}

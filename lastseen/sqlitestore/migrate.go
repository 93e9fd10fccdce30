package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is put behind the file's name for the one that processes lock
// while they migrate. It stays, empty.
const migrationLock = "-migrate"

// alone runs act while no other process runs it for the same file. SQLite has no
// advisory locks, and the transactions in which a migration runs do not cover the
// look whether it is due. What is locked is therefore a second, empty database;
// the lock of a process that dies is gone with it.
func alone(ctx context.Context, path string, act func() error) (err error) {
	settings := url.Values{"_pragma": {"busy_timeout(60000)"}}
	lock, err := sql.Open("sqlite", address(path+migrationLock, settings))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	conn, err := lock.Conn(ctx)
	if err != nil {
		return fmt.Errorf("opening the lock for migrations: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `BEGIN EXCLUSIVE`); err != nil {
		return fmt.Errorf("waiting for another process that migrates: %w", err)
	}
	err = act()
	_, ended := conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
	return errors.Join(err, ended)
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithTableName("stillhere_lastseen_migrations"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

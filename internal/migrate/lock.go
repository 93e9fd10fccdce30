package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
)

// lockFile is put behind the name of the file that processes lock while they
// migrate. It stays, empty.
const lockFile = "-migrate"

// withLock runs act while no other process runs it for the same SQLite file. SQLite has
// no advisory locks, and the transactions in which a migration runs do not cover the
// look whether it is due. What is locked is therefore a second, empty database; the
// lock of a process that dies is gone with it.
func withLock(ctx context.Context, path string, act func() error) (err error) {
	settings := url.Values{"_pragma": {"busy_timeout(60000)"}}
	address := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path + lockFile}).EscapedPath(), RawQuery: settings.Encode()}).String()
	db, err := sql.Open("sqlite", address) // the driver of whoever called
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
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

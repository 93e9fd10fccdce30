package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
)

// lockFile is the suffix of the empty file that processes lock while they migrate.
const lockFile = "-migrate"

// withLock runs act while no other process runs it for the same SQLite file. SQLite has no advisory
// locks, and the transaction of a migration does not cover the check whether it is due. So the
// lock is on a second, empty database; it ends with its process.
func withLock(ctx context.Context, path string, act func() error) (err error) {
	settings := url.Values{"_pragma": {"busy_timeout(60000)"}}
	address := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path + lockFile}).EscapedPath(), RawQuery: settings.Encode()}).String()
	db, err := sql.Open("sqlite", address) // the caller has imported the driver
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

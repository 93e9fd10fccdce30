package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationsTable keeps what was applied; other rooms keep theirs apart.
const migrationsTable = "stillhere_lastseen_migrations"

// migrationLock is the key of the advisory lock: "lastseen" in ASCII.
const migrationLock int64 = 0x6c6173747365656e

// Migrate brings the schema up to date and makes the days' partitions that are
// due. Any number of processes may call it at once; one does the work, the
// others wait for it up to two minutes.
func Migrate(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	if err := applyMigrations(ctx, config); err != nil {
		return fmt.Errorf("migrating the Postgres schema: %w", err)
	}
	s, err := Open(ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Maintain(ctx)
}

func applyMigrations(ctx context.Context, config Config) error {
	conn, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return err
	}
	config.settle(conn)
	if config.Password != nil {
		if conn.Password, err = config.Password(); err != nil {
			return err
		}
	}
	db := stdlib.OpenDB(*conn)
	defer func() { _ = db.Close() }()

	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	const retrySeconds, attempts = 1, 120
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(retrySeconds, attempts))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithTableName(migrationsTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

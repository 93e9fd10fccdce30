package pgstore

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema describes the service's tables. The lock's key is "lastseen" in ASCII.
var schema = migrate.Plan{Service: "lastseen", Files: migrate.Folder(migrations), Table: "stillhere_lastseen_migrations", Lock: 0x6c6173747365656e}

// Migrate brings the schema up to date, as postgres.Migrate does, and maintains the partitions.
func Migrate(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	pool, err := config.pool()
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, pool, schema); err != nil {
		return fmt.Errorf("migrating the Postgres schema: %w", err)
	}
	s, err := Open(ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Maintain(ctx, time.Now())
}

// Schema compares the tables with this program; see postgres.Schema.
func (s *Store) Schema(ctx context.Context) (migrate.State, error) {
	return postgres.Schema(ctx, s.pool, schema)
}

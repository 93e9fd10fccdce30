package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema is what this room keeps in Postgres. The lock's key is "lastseen" in ASCII.
func schema() (migrate.Plan, error) {
	files, err := fs.Sub(migrations, "migrations")
	return migrate.Plan{Service: "lastseen", Files: files, Table: "stillhere_lastseen_migrations", Lock: 0x6c6173747365656e}, err
}

// Migrate brings the schema up to date, as postgres.Migrate does, and makes the days'
// partitions that are due.
func Migrate(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	pool, err := config.pool()
	if err != nil {
		return err
	}
	plan, err := schema()
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, pool, plan); err != nil {
		return fmt.Errorf("migrating the Postgres schema: %w", err)
	}
	s, err := Open(ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Maintain(ctx, time.Now())
}

// Schema tells how the tables stand to this program; see postgres.Schema.
func (s *Store) Schema(ctx context.Context) (migrate.State, error) {
	plan, err := schema()
	if err != nil {
		return migrate.State{}, err
	}
	return postgres.Schema(ctx, s.pool, plan)
}

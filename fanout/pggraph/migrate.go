package pggraph

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema is what the graph keeps in Postgres. The lock's key is "fanout" in ASCII.
func schema() (migrate.Plan, error) {
	files, err := fs.Sub(migrations, "migrations")
	return migrate.Plan{Service: "fanout", Files: files, Table: "stillhere_fanout_migrations", Lock: 0x66616e6f7574}, err
}

// Migrate brings the graph's tables up to date; see postgres.Migrate.
func Migrate(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	pool, err := config.Pool(application)
	if err != nil {
		return err
	}
	plan, err := schema()
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, pool, plan); err != nil {
		return fmt.Errorf("migrating the Postgres schema of fan-out: %w", err)
	}
	return nil
}

// Schema tells how the tables stand to this program; see postgres.Schema.
func (g *Graph) Schema(ctx context.Context) (migrate.State, error) {
	plan, err := schema()
	if err != nil {
		return migrate.State{}, err
	}
	return postgres.Schema(ctx, g.pool, plan)
}

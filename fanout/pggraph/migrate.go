package pggraph

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/postgres"
)

// Config says which Postgres and with which limits. Start from Defaults.
type Config = postgres.Config

// application is the name of these connections in pg_stat_activity.
const application = "stillhere-fanout"

// Defaults returns the default limits. The URL has to be set.
func Defaults() Config {
	return Config{MaxConns: 8, ConnectTimeout: 3 * time.Second, StatementTimeout: time.Minute, LockTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second}
}

//go:embed migrations/*.sql
var migrations embed.FS

// schema describes the graph's tables. The lock's key is "fanout" in ASCII.
var schema = migrate.Plan{Service: "fanout", Files: migrate.Folder(migrations), Table: "stillhere_fanout_migrations", Lock: 0x66616e6f7574}

// Migrate brings the graph's tables up to date; see postgres.Migrate.
func Migrate(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	pool, err := config.Pool(application)
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, pool, schema); err != nil {
		return fmt.Errorf("migrating the Postgres schema of fan-out: %w", err)
	}
	return nil
}

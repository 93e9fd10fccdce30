package pggraph

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stillhere/stillhere/internal/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema is what the graph keeps in Postgres. The lock's key is "fanout" in ASCII.
func schema() (migrate.Plan, error) {
	files, err := fs.Sub(migrations, "migrations")
	return migrate.Plan{Room: "fanout", Files: files, Table: "stillhere_fanout_migrations", Lock: 0x66616e6f7574}, err
}

// Migrate brings the schema up to date. Any number of processes may call it at
// once; one does the work, the others wait for it up to two minutes. A schema that
// is newer than this program is left as it is; the error is migrate.ErrTooOld when
// it cannot live with that.
func Migrate(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	if err := applyMigrations(ctx, config); err != nil {
		return fmt.Errorf("migrating the Postgres schema of fan-out: %w", err)
	}
	return nil
}

func applyMigrations(ctx context.Context, config Config) error {
	plan, err := schema()
	if err != nil {
		return err
	}
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
	_, err = migrate.Postgres(ctx, db, plan)
	return err
}

// Schema tells how the tables stand to this program. The error is migrate.ErrTooOld
// when this program cannot live with them; any other may pass.
func (g *Graph) Schema(ctx context.Context) (migrate.State, error) {
	plan, err := schema()
	if err != nil {
		return migrate.State{}, err
	}
	var number, least int64
	err = g.pool.QueryRow(ctx, migrate.Question, plan.Room).Scan(&number, &least)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == undefinedTable || errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	if err != nil {
		return migrate.State{}, fmt.Errorf("reading the schema's number: %w", err)
	}
	return plan.Compare(number, least)
}

// undefinedTable is the SQLSTATE of a table that is not there.
const undefinedTable = "42P01"

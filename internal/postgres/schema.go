package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stillhere/stillhere/internal/migrate"
)

// undefinedTable is the SQLSTATE for a missing table.
const undefinedTable = "42P01"

// Migrate brings a room's tables up to date. Any number of processes may call it at
// once; one does the work, the others wait for it up to two minutes. Tables that are
// newer than this program are left as they are; the error is migrate.ErrTooOld when it
// cannot use them.
func Migrate(ctx context.Context, pool *pgxpool.Config, plan migrate.Plan) error {
	conn := pool.ConnConfig.Copy()
	if err := pool.BeforeConnect(ctx, conn); err != nil {
		return err
	}
	db := stdlib.OpenDB(*conn)
	defer func() { _ = db.Close() }()
	_, err := migrate.Postgres(ctx, db, plan)
	return err
}

// Schema tells how a room's tables stand to this program. The error is
// migrate.ErrTooOld when this program cannot use them; any other may pass.
func Schema(ctx context.Context, pool *pgxpool.Pool, plan migrate.Plan) (migrate.State, error) {
	var number, least int64
	err := pool.QueryRow(ctx, migrate.Question, plan.Service).Scan(&number, &least)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == undefinedTable || errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	if err != nil {
		return migrate.State{}, fmt.Errorf("reading the schema's number: %w", err)
	}
	return plan.Compare(number, least)
}

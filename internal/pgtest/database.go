package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Exec runs SQL in a database, for what a test does behind the store's back.
func Exec(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

func createDatabase(ctx context.Context, url, name string) error {
	return Exec(ctx, url, "CREATE DATABASE "+name)
}

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

// Exec runs SQL in a database, without the store.
func Exec(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// base is the name of the nth database that a process makes.
func base(n int64) string { return fmt.Sprintf("stillhere_%d_%d", os.Getpid(), n) }

// Drop drops the databases that URL has created on a server that is not private.
func (c *Cluster) Drop(ctx context.Context) error {
	if c.Private() {
		return nil
	}
	var faults []error
	for n := range c.bases.Load() {
		faults = append(faults, Exec(ctx, c.url, "DROP DATABASE IF EXISTS "+base(n+1)+" WITH (FORCE)"))
	}
	return errors.Join(faults...)
}

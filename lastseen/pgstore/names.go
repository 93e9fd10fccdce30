package pgstore

import (
	"context"

	_ "embed"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/write_names.sql
var writeNamesSQL string

// WriteNames stores names; see store.Namer. Each statement is a transaction of its own, so that it
// cannot wait in a circle with a transaction of Append.
func (s *Store) WriteNames(ctx context.Context, records []schemas.UserName) (err error) {
	defer s.Wrap(&err, "writing %d names", len(records))
	known, erased := store.FoldNames(records)
	if len(erased) > 0 {
		if _, err := s.pool.Exec(ctx, `DELETE FROM names WHERE user_id = ANY ($1)`, store.Numbers(erased)); err != nil {
			return err
		}
	}
	return writeNames(ctx, s.pool, known)
}

// writeNames writes what store.FoldNames returns.
func writeNames(ctx context.Context, to interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}, names []schemas.UserName) error {
	if len(names) == 0 {
		return nil
	}
	users, tenants, texts := make([]int64, len(names)), make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		users[i], tenants[i], texts[i] = int64(n.User), n.Name.Tenant, n.Name.Text
	}
	_, err := to.Exec(ctx, writeNamesSQL, users, tenants, texts)
	return err
}

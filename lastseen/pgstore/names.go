package pgstore

import (
	"context"

	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/write_names.sql
var writeNamesSQL string

// Names reads what users are called; see store.Reader.
func (s *Store) Names(ctx context.Context, ids []schemas.UserID) (found map[schemas.UserID]schemas.UserName, err error) {
	defer wrap(&err, "reading the names of %d users", len(ids))
	found = make(map[schemas.UserID]schemas.UserName, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := s.pool.Query(ctx, `SELECT user_id, tenant, name FROM names WHERE user_id = ANY ($1)`, numbersOf(ids))
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (schemas.UserName, error) { return store.ScanName(row) })
	for _, n := range names {
		found[n.User] = n
	}
	return found, err
}

// WriteNames stores names; see store.Namer. Each statement is a transaction of its own, so that it
// cannot wait in a circle with a transaction of Append.
func (s *Store) WriteNames(ctx context.Context, records []schemas.UserName) (err error) {
	defer wrap(&err, "writing %d names", len(records))
	known, erased := store.FoldNames(records)
	if len(erased) > 0 {
		if _, err := s.pool.Exec(ctx, `DELETE FROM names WHERE user_id = ANY ($1)`, numbersOf(erased)); err != nil {
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

// NamesOfTenant lists the users of a tenant; see store.Tenants.
func (s *Store) NamesOfTenant(ctx context.Context, tenant string, after schemas.UserID, limit int) (names []schemas.UserName, err error) {
	defer wrap(&err, "listing the users of tenant %q", tenant)
	rows, err := s.pool.Query(ctx, `SELECT user_id, tenant, name FROM names WHERE tenant = $1 AND user_id > $2 ORDER BY user_id LIMIT $3`,
		tenant, int64(after), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (schemas.UserName, error) { return store.ScanName(row) })
}

// TenantSizes counts the users of each tenant; see store.Tenants.
func (s *Store) TenantSizes(ctx context.Context, changes bool) (sizes []store.TenantSize, err error) {
	defer wrap(&err, "counting the users of tenants")
	rows, err := s.pool.Query(ctx, store.TenantSizesSQL(changes))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.TenantSize, error) { return store.ScanTenantSize(row) })
}

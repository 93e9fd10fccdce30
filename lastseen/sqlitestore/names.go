package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/write_name.sql
var writeNameSQL string

const eraseNameSQL = `DELETE FROM names WHERE user_id = ?`

// Names reads what users are called; see store.Reader.
func (s *Store) Names(ctx context.Context, ids []schemas.UserID) (found map[schemas.UserID]schemas.UserName, err error) {
	defer wrap(&err, "reading the names of %d users", len(ids))
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	found = make(map[schemas.UserID]schemas.UserName, len(ids))
	const query = `SELECT user_id, tenant, name FROM names WHERE user_id IN (SELECT value FROM json_each(?))`
	return found, each(ctx, s.Readers, query, []any{string(list)}, func(row *sql.Rows) error {
		n, err := store.ScanName(row)
		found[n.User] = n
		return err
	})
}

// WriteNames stores names; see store.Namer.
func (s *Store) WriteNames(ctx context.Context, records []schemas.UserName) (err error) {
	defer wrap(&err, "writing %d names", len(records))
	tx, err := s.Writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	known, erased := store.FoldNames(records)
	for _, user := range erased {
		if _, err := tx.ExecContext(ctx, eraseNameSQL, int64(user)); err != nil {
			return err
		}
	}
	if err := writeNames(ctx, tx, known); err != nil {
		return err
	}
	return tx.Commit()
}

// writeNames writes what store.FoldNames returns.
func writeNames(ctx context.Context, tx *sql.Tx, names []schemas.UserName) error {
	for _, n := range names {
		if _, err := tx.ExecContext(ctx, writeNameSQL, int64(n.User), n.Name.Tenant, n.Name.Text); err != nil {
			return err
		}
	}
	return nil
}

// NamesOfTenant lists the users of a tenant; see store.Tenants.
func (s *Store) NamesOfTenant(ctx context.Context, tenant string, after schemas.UserID, limit int) (names []schemas.UserName, err error) {
	defer wrap(&err, "listing the users of tenant %q", tenant)
	const query = `SELECT user_id, tenant, name FROM names WHERE tenant = ? AND user_id > ? ORDER BY user_id LIMIT ?`
	err = each(ctx, s.Readers, query, []any{tenant, int64(after), limit}, func(row *sql.Rows) error {
		n, err := store.ScanName(row)
		names = append(names, n)
		return err
	})
	return names, err
}

// TenantSizes counts the users of each tenant; see store.Tenants.
func (s *Store) TenantSizes(ctx context.Context, changes bool) (sizes []store.TenantSize, err error) {
	defer wrap(&err, "counting the users of tenants")
	err = each(ctx, s.Readers, store.TenantSizesSQL(changes), nil, func(row *sql.Rows) error {
		size, err := store.ScanTenantSize(row)
		sizes = append(sizes, size)
		return err
	})
	return sizes, err
}

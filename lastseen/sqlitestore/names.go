package sqlitestore

import (
	"context"
	"database/sql"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/write_name.sql
var writeNameSQL string

const eraseNameSQL = `DELETE FROM names WHERE user_id = ?`

// WriteNames stores names; see store.Namer.
func (s *Store) WriteNames(ctx context.Context, records []schemas.UserName) (err error) {
	defer s.Wrap(&err, "writing %d names", len(records))
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

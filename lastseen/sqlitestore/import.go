package sqlitestore

import (
	"context"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
)

//go:embed sql/import_user.sql
var importUserSQL string

//go:embed sql/import_name.sql
var importNameSQL string

// Import stores when users were last seen; see importer.Importer.
func (s *Store) Import(ctx context.Context, users []store.LastSeen) (stored int64, err error) {
	defer s.Wrap(&err, "importing %d users", len(users))
	tx, err := s.Writer.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	statement, err := tx.PrepareContext(ctx, importUserSQL)
	if err != nil {
		return 0, err
	}
	defer func() { _ = statement.Close() }()
	for _, u := range users {
		done, err := statement.ExecContext(ctx, int64(u.User), int64(u.At))
		if err != nil {
			return 0, err
		}
		changed, err := done.RowsAffected()
		if err != nil {
			return 0, err
		}
		stored += changed
	}
	for _, n := range store.NamesOfSeen(users) {
		if _, err := tx.ExecContext(ctx, importNameSQL, int64(n.User), n.Name.Tenant, n.Name.Text); err != nil {
			return 0, err
		}
	}
	return stored, tx.Commit()
}

package pgstore

import (
	"context"
	"slices"

	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/import_users.sql
var importUsersSQL string

// importColumns are the parameters of import_users.sql.
var importColumns = []column[store.LastSeen]{
	{int8OID, func(b []byte, u store.LastSeen) []byte { return appendInt8(b, int64(u.User)) }},
	{timestamptzOID, func(b []byte, u store.LastSeen) []byte { return appendInstant(b, u.At) }},
}

// Import stores when users were last seen; see importer.Importer.
func (s *Store) Import(ctx context.Context, users []store.LastSeen) (stored int64, err error) {
	defer s.Wrap(&err, "importing %d users", len(users))
	if len(users) == 0 {
		return 0, nil
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err = s.importRows(ctx, tx, users)
		return err
	})
	return stored, err
}

func (s *Store) importRows(ctx context.Context, tx pgx.Tx, users []store.LastSeen) (stored int64, err error) {
	// Erasures wait: one that did not see these rows would leave them.
	if _, err := tx.Exec(ctx, `LOCK TABLE erased_users IN SHARE MODE`); err != nil {
		return 0, err
	}
	done, err := execArrays(ctx, tx, importUsersSQL, arrays(importColumns, users))
	if err != nil {
		return 0, err
	}
	names, err := s.withoutErased(ctx, tx, store.NamesOfSeen(users))
	if err != nil {
		return 0, err
	}
	return done.RowsAffected(), writeNames(ctx, tx, names)
}

// withoutErased leaves out the names of erased users.
func (s *Store) withoutErased(ctx context.Context, tx pgx.Tx, names []schemas.UserName) ([]schemas.UserName, error) {
	if len(names) == 0 {
		return nil, nil
	}
	ids := make([]schemas.UserID, len(names))
	for i, n := range names {
		ids[i] = n.User
	}
	gone, err := s.ErasedOf(ctx, queries{tx}, ids)
	return slices.DeleteFunc(names, func(n schemas.UserName) bool { _, is := gone[n.User]; return is }), err
}

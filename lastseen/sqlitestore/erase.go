package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// eraseSQL are statements with a user, a version, an instant and the partition.
var eraseSQL = []string{
	`DELETE FROM user_presence WHERE user_id = ?1 AND version <= ?2`,
	`DELETE FROM status_changes WHERE user_id = ?1 AND version <= ?2`,
	`INSERT INTO erased_users (user_id, version, until, partition) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (user_id) DO UPDATE SET version = excluded.version, until = excluded.until, partition = excluded.partition
		WHERE version < excluded.version`,
}

// splitErased returns the changes of a batch that no erasure has made void, and the erasures in it.
func splitErased(ctx context.Context, tx *sql.Tx, batch store.Batch) ([]*schemas.Transition, []store.Erasure, error) {
	if len(batch.Changes) == 0 {
		return nil, nil, nil
	}
	const query = `SELECT user_id, version FROM erased_users WHERE partition = ? AND version >= ?`
	known, err := erased(ctx, tx, query, batch.Partition, int64(store.Oldest(batch.Changes)))
	if err != nil {
		return nil, nil, err
	}
	counts, erasures := store.SplitErased(batch.Changes, known)
	return counts, erasures, nil
}

// erase deletes all rows of users, and remembers their erasure.
func erase(ctx context.Context, tx *sql.Tx, partition int32, erasures []store.Erasure) error {
	for _, e := range erasures {
		for i, statement := range eraseSQL {
			arguments := []any{int64(e.User), int64(e.Version), int64(e.Until), partition}
			if i < len(eraseSQL)-1 {
				arguments = arguments[:2]
			}
			if _, err := tx.ExecContext(ctx, statement, arguments...); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, eraseNameSQL, int64(e.User)); err != nil {
			return err
		}
	}
	return nil
}

// Erased are the erased users, with the versions up to which changes count for nothing.
func (s *Store) Erased(ctx context.Context) (users map[schemas.UserID]schemas.Version, err error) {
	defer wrap(&err, "reading which users were erased")
	return erased(ctx, s.Readers, `SELECT user_id, version FROM erased_users`)
}

// ErasureOf is the erasure of a user that is not forgotten yet; the zero Erasure if there is none.
func (s *Store) ErasureOf(ctx context.Context, user schemas.UserID) (e store.Erasure, err error) {
	defer wrap(&err, "reading the erasure of user %d", user)
	const query = `SELECT user_id, version, until FROM erased_users WHERE user_id = ?`
	err = s.Readers.QueryRowContext(ctx, query, int64(user)).Scan(&e.User, &e.Version, &e.Until)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return e, err
}

func erased(ctx context.Context, from queryer, query string, arguments ...any) (map[schemas.UserID]schemas.Version, error) {
	users := map[schemas.UserID]schemas.Version{}
	return users, each(ctx, from, query, arguments, func(row *sql.Rows) error {
		var user, version int64
		err := row.Scan(&user, &version)
		users[schemas.UserID(user)] = schemas.Version(version)
		return err
	})
}

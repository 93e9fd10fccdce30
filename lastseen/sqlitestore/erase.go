package sqlitestore

import (
	"context"
	"database/sql"

	"github.com/stillhere/stillhere/lastseen/store"
)

// eraseSQL are statements with a user, a version, an instant and the partition.
var eraseSQL = []string{
	`DELETE FROM user_presence WHERE user_id = ?1 AND version <= ?2`,
	`DELETE FROM status_changes WHERE user_id = ?1 AND version <= ?2`,
	`DELETE FROM denied_viewers WHERE user_id = ?1 AND version <= ?2`,
	`INSERT INTO erased_users (user_id, version, until, partition) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (user_id) DO UPDATE SET version = excluded.version, until = excluded.until, partition = excluded.partition
		WHERE version < excluded.version`,
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

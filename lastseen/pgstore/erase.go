package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/lastseen/store"
)

// eraseSQL are statements with the arrays users, versions and untils, and the partition. The first waits
// for a running import (import.go), so that the next ones see and delete what it stored.
var eraseSQL = []string{
	`INSERT INTO erased_users AS known (user_id, version, until, partition)
		SELECT user_id, version, until, $4 FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) AS e (user_id, version, until)
		ON CONFLICT (user_id) DO UPDATE SET version = excluded.version, until = excluded.until, partition = excluded.partition
		WHERE known.version < excluded.version`,
	`DELETE FROM user_presence p USING unnest($1::bigint[], $2::bigint[]) AS e (user_id, version)
		WHERE p.user_id = e.user_id AND p.version <= e.version`,
	`DELETE FROM status_changes c USING unnest($1::bigint[], $2::bigint[]) AS e (user_id, version)
		WHERE c.user_id = e.user_id AND c.version <= e.version`,
	`DELETE FROM denied_viewers d USING unnest($1::bigint[], $2::bigint[]) AS e (user_id, version)
		WHERE d.user_id = e.user_id AND d.version <= e.version`,
	`DELETE FROM names n USING unnest($1::bigint[], $2::bigint[]) AS e (user_id, version) WHERE n.user_id = e.user_id`,
}

// erase deletes all rows of users, and remembers their erasure.
func erase(ctx context.Context, tx pgx.Tx, partition int32, erasures []store.Erasure) error {
	if len(erasures) == 0 {
		return nil
	}
	users, versions, untils := make([]int64, len(erasures)), make([]int64, len(erasures)), make([]time.Time, len(erasures))
	for i, e := range erasures {
		users[i], versions[i], untils[i] = int64(e.User), int64(e.Version), e.Until.Time()
	}
	for i, sql := range eraseSQL {
		arguments := []any{users, versions, untils, partition}
		if i > 0 {
			arguments = arguments[:2]
		}
		if _, err := tx.Exec(ctx, sql, arguments...); err != nil {
			return err
		}
	}
	return nil
}

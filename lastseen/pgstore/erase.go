package pgstore

import (
	"context"
	"errors"
	"time"

	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
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
	`DELETE FROM names n USING unnest($1::bigint[], $2::bigint[]) AS e (user_id, version) WHERE n.user_id = e.user_id`,
}

// splitErased returns the changes of a batch that no erasure has made void, and the erasures in it.
func splitErased(ctx context.Context, tx pgx.Tx, batch store.Batch) ([]*schemas.Transition, []store.Erasure, error) {
	const query = `SELECT user_id, version FROM erased_users WHERE partition = $1 AND version >= $2`
	known, err := erased(ctx, tx, query, batch.Partition, int64(store.Oldest(batch.Changes)))
	if err != nil {
		return nil, nil, err
	}
	counts, erasures := store.SplitErased(batch.Changes, known)
	return counts, erasures, nil
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

// Erased are the erased users, with the versions up to which changes count for nothing.
func (s *Store) Erased(ctx context.Context) (users map[schemas.UserID]schemas.Version, err error) {
	defer wrap(&err, "reading which users were erased")
	return erased(ctx, s.pool, `SELECT user_id, version FROM erased_users`)
}

// ErasureOf is the erasure of a user that is not forgotten yet; the zero Erasure if there is none.
func (s *Store) ErasureOf(ctx context.Context, user schemas.UserID) (e store.Erasure, err error) {
	defer wrap(&err, "reading the erasure of user %d", user)
	var version int64
	var until time.Time
	const query = `SELECT version, until FROM erased_users WHERE user_id = $1`
	err = s.pool.QueryRow(ctx, query, int64(user)).Scan(&version, &until)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, nil
	}
	return store.Erasure{User: user, Version: schemas.Version(version), Until: schemas.MillisOf(until)}, err
}

func erased(ctx context.Context, from interface {
	Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error)
}, query string, arguments ...any) (map[schemas.UserID]schemas.Version, error) {
	rows, err := from.Query(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	users := map[schemas.UserID]schemas.Version{}
	var user, version int64
	_, err = pgx.ForEachRow(rows, []any{&user, &version}, func() error {
		users[schemas.UserID(user)] = schemas.Version(version)
		return nil
	})
	return users, err
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// edgeLock lets one process drop changes of tenants at a time: "tenantlg" in ASCII.
const edgeLock int64 = 0x74656e616e746c67

// DropBefore deletes changes of users; see store.TenantLog. The instant up to which a step goes keeps the
// statement within the days that it deletes from.
func (s *Store) DropBefore(ctx context.Context, users []schemas.UserID, before schemas.Millis, most int) (dropped int64, err error) {
	defer s.Wrap(&err, "dropping changes of %d users", len(users))
	const last = `SELECT at FROM status_changes WHERE user_id = ANY ($1) AND at < $2 ORDER BY at OFFSET $3 LIMIT 1`
	ids, to := store.Numbers(users), before.Time()
	var step time.Time
	switch err := s.pool.QueryRow(ctx, last, ids, to, most-1).Scan(&step); {
	case err == nil:
		to = step.Add(time.Millisecond)
	case !errors.Is(err, pgx.ErrNoRows):
		return 0, err
	}
	done, err := s.pool.Exec(ctx, `DELETE FROM status_changes WHERE user_id = ANY ($1) AND at < $2`, ids, to)
	return done.RowsAffected(), err
}

// Exclusively calls act unless another process is in it; see store.TenantLog.
func (s *Store) Exclusively(ctx context.Context, act func(context.Context) error) error {
	return s.alone(ctx, edgeLock, "dropping changes of tenants", func(*pgx.Conn) error { return act(ctx) })
}

// alone calls act unless another process holds the lock, with a connection that holds it meanwhile.
func (s *Store) alone(ctx context.Context, lock int64, doing string, act func(*pgx.Conn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer conn.Release()
	var mine bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lock).Scan(&mine); err != nil {
		return fmt.Errorf("%s: %w", doing, classify(err))
	}
	if !mine {
		return nil
	}
	err = act(conn.Conn())
	_, unlockErr := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, lock)
	return errors.Join(err, unlockErr)
}

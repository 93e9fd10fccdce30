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

// edges are where the log begins for tenants; see store.Edges.
func (s *Store) edges(ctx context.Context) (store.Edges, error) {
	return s.edgeCache.Get(ctx, func(ctx context.Context) (store.Edges, error) {
		rows, err := s.pool.Query(ctx, `SELECT tenant, dropped_before FROM tenant_edges`)
		if err != nil {
			return nil, err
		}
		edges := store.Edges{}
		var tenant string
		var before time.Time
		_, err = pgx.ForEachRow(rows, []any{&tenant, &before}, func() error {
			edges[tenant] = schemas.MillisOf(before)
			return nil
		})
		return edges, err
	})
}

// TenantEdges are where the log begins for tenants; see store.TenantLog.
func (s *Store) TenantEdges(ctx context.Context) (edges store.Edges, err error) {
	defer wrap(&err, "asking where the logs of tenants begin")
	return s.edges(ctx)
}

// TenantNames lists tenants; see store.TenantLog.
func (s *Store) TenantNames(ctx context.Context) (names []string, err error) {
	defer wrap(&err, "listing the tenants")
	rows, err := s.pool.Query(ctx, store.TenantNamesSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// MoveEdge moves the edge of a tenant; see store.TenantLog.
func (s *Store) MoveEdge(ctx context.Context, tenant string, before schemas.Millis) (cleaned bool, err error) {
	defer wrap(&err, "moving where the log of tenant %q begins", tenant)
	const query = `INSERT INTO tenant_edges AS edge (tenant, dropped_before) VALUES ($1, $2)
		ON CONFLICT (tenant) DO UPDATE SET dropped_before = greatest(edge.dropped_before, excluded.dropped_before)
		RETURNING coalesce(cleaned_before >= $2, false)`
	err = s.pool.QueryRow(ctx, query, tenant, before.Time()).Scan(&cleaned)
	s.edgeCache.Forget()
	return cleaned, err
}

// Cleaned notes that a tenant's log was cleaned; see store.TenantLog.
func (s *Store) Cleaned(ctx context.Context, tenant string, before schemas.Millis) (err error) {
	defer wrap(&err, "noting that the log of tenant %q is clean", tenant)
	_, err = s.pool.Exec(ctx, `UPDATE tenant_edges SET cleaned_before = $2 WHERE tenant = $1`, tenant, before.Time())
	return err
}

// DropBefore deletes changes of users; see store.TenantLog. The instant up to which a step goes keeps the
// statement within the days that it deletes from.
func (s *Store) DropBefore(ctx context.Context, users []schemas.UserID, before schemas.Millis, most int) (dropped int64, err error) {
	defer wrap(&err, "dropping changes of %d users", len(users))
	const last = `SELECT at FROM status_changes WHERE user_id = ANY ($1) AND at < $2 ORDER BY at OFFSET $3 LIMIT 1`
	ids, to := numbersOf(users), before.Time()
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
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("dropping changes of tenants: %w", err)
	}
	defer conn.Release()
	var mine bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, edgeLock).Scan(&mine); err != nil {
		return fmt.Errorf("dropping changes of tenants: %w", classify(err))
	}
	if !mine {
		return nil
	}
	err = act(ctx)
	_, unlockErr := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, edgeLock)
	return errors.Join(err, unlockErr)
}

package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// edges are where the log begins for tenants; see store.Edges.
func (s *Store) edges(ctx context.Context) (store.Edges, error) {
	return s.edgeCache.Get(ctx, func(ctx context.Context) (store.Edges, error) {
		edges := store.Edges{}
		err := each(ctx, s.Readers, `SELECT tenant, dropped_before FROM tenant_edges`, nil, func(row *sql.Rows) error {
			var tenant string
			var before schemas.Millis
			err := row.Scan(&tenant, &before)
			edges[tenant] = before
			return err
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
	err = each(ctx, s.Readers, store.TenantNamesSQL, nil, func(row *sql.Rows) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// MoveEdge moves the edge of a tenant; see store.TenantLog.
func (s *Store) MoveEdge(ctx context.Context, tenant string, before schemas.Millis) (cleaned bool, err error) {
	defer wrap(&err, "moving where the log of tenant %q begins", tenant)
	const query = `INSERT INTO tenant_edges (tenant, dropped_before) VALUES (?1, ?2)
		ON CONFLICT (tenant) DO UPDATE SET dropped_before = max(dropped_before, excluded.dropped_before)
		RETURNING cleaned_before >= ?2`
	err = s.Writer.QueryRowContext(ctx, query, tenant, int64(before)).Scan(&cleaned)
	s.edgeCache.Forget()
	return cleaned, err
}

// Cleaned notes that a tenant's log was cleaned; see store.TenantLog.
func (s *Store) Cleaned(ctx context.Context, tenant string, before schemas.Millis) (err error) {
	defer wrap(&err, "noting that the log of tenant %q is clean", tenant)
	_, err = s.Writer.ExecContext(ctx, `UPDATE tenant_edges SET cleaned_before = ? WHERE tenant = ?`, int64(before), tenant)
	return err
}

// DropBefore deletes changes of users; see store.TenantLog.
func (s *Store) DropBefore(ctx context.Context, users []schemas.UserID, before schemas.Millis, most int) (dropped int64, err error) {
	defer wrap(&err, "dropping changes of %d users", len(users))
	list, err := json.Marshal(users)
	if err != nil {
		return 0, err
	}
	const query = `DELETE FROM status_changes WHERE (user_id, at, version) IN (
		SELECT c.user_id, c.at, c.version FROM json_each(?1) AS asked JOIN status_changes c ON c.user_id = asked.value AND c.at < ?2 LIMIT ?3)`
	done, err := s.Writer.ExecContext(ctx, query, string(list), int64(before), most)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// Exclusively calls act: no other process has the file.
func (s *Store) Exclusively(ctx context.Context, act func(context.Context) error) error {
	return act(ctx)
}

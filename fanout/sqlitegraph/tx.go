package sqlitegraph

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// tx is a graph.Tx.
type tx struct{ *sql.Tx }

func (g *driver) Transact(ctx context.Context, f func(graph.Tx) error) error {
	t, err := g.Writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx{t}); err != nil {
		return errors.Join(err, t.Rollback())
	}
	return t.Commit()
}

func (t tx) Exec(ctx context.Context, query string, arguments ...any) (int64, error) {
	done, err := t.ExecContext(ctx, query, arguments...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (t tx) Insert(ctx context.Context, edges []graph.Edge) (int64, error) {
	return forEach(ctx, t, `INSERT INTO follows (user_id, follower_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, edges, ends)
}

func (t tx) Delete(ctx context.Context, edges []graph.Edge) (int64, error) {
	return forEach(ctx, t, `DELETE FROM follows WHERE user_id = $1 AND follower_id = $2`, edges, ends)
}

func ends(e graph.Edge) []any { return []any{int64(e.User), int64(e.Follower)} }

func (t tx) Name(ctx context.Context, names graph.Names) (int64, error) {
	const query = `INSERT INTO follow_names (user_id, tenant, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	return forEach(ctx, t, query, slices.Collect(maps.Keys(names)), func(user schemas.UserID) []any {
		return []any{int64(user), names[user].Tenant, names[user].Text}
	})
}

// Announce does nothing: Watch asks the file.
func (t tx) Announce(context.Context, []schemas.UserID) error { return nil }

// forEach runs a statement with the arguments of each row and returns how many rows it changed.
func forEach[R any](ctx context.Context, t tx, query string, rows []R, arguments func(R) []any) (n int64, err error) {
	statement, err := t.PrepareContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer func() { _ = statement.Close() }()
	for _, row := range rows {
		done, err := statement.ExecContext(ctx, arguments(row)...)
		if err != nil {
			return 0, err
		}
		changed, err := done.RowsAffected()
		if err != nil {
			return 0, err
		}
		n += changed
	}
	return n, nil
}

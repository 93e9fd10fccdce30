package sqlitegraph

import (
	"context"
	"database/sql"
	"errors"

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
	return t.forEach(ctx, edges, `INSERT INTO follows (user_id, follower_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`)
}

func (t tx) Delete(ctx context.Context, edges []graph.Edge) (int64, error) {
	return t.forEach(ctx, edges, `DELETE FROM follows WHERE user_id = $1 AND follower_id = $2`)
}

func (t tx) Name(ctx context.Context, names graph.Names) (named int64, err error) {
	statement, err := t.PrepareContext(ctx, `INSERT INTO follow_names (user_id, tenant, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`)
	if err != nil {
		return 0, err
	}
	defer func() { _ = statement.Close() }()
	for user, name := range names {
		done, err := statement.ExecContext(ctx, int64(user), name.Tenant, name.Text)
		if err != nil {
			return 0, err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return 0, err
		}
		named += n
	}
	return named, nil
}

// Announce does nothing: Watch asks the file.
func (t tx) Announce(context.Context, []schemas.UserID) error { return nil }

// forEach runs a statement for each edge and returns how many rows it changed.
func (t tx) forEach(ctx context.Context, edges []graph.Edge, query string) (n int64, err error) {
	statement, err := t.PrepareContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer func() { _ = statement.Close() }()
	for _, e := range edges {
		done, err := statement.ExecContext(ctx, int64(e.User), int64(e.Follower))
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

package sqlitegraph

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// inTx runs f in a transaction.
func (g *Graph) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := g.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// each runs a statement for each edge and counts the rows it touched.
func each(ctx context.Context, tx *sql.Tx, query string, edges []graph.Edge) (int64, error) {
	statement, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer func() { _ = statement.Close() }()
	var n int64
	for _, e := range edges {
		done, err := statement.ExecContext(ctx, int64(e.User), int64(e.Follower))
		if err != nil {
			return 0, err
		}
		touched, err := done.RowsAffected()
		if err != nil {
			return 0, err
		}
		n += touched
	}
	return n, nil
}

const (
	addSQL    = `INSERT INTO follows (user_id, follower_id) VALUES (?, ?) ON CONFLICT DO NOTHING`
	removeSQL = `DELETE FROM follows WHERE user_id = ? AND follower_id = ?`
)

// Add adds edges; see graph.Store.
func (g *Graph) Add(ctx context.Context, edges []graph.Edge) (n int64, err error) {
	err = g.inTx(ctx, func(tx *sql.Tx) (err error) { n, err = each(ctx, tx, addSQL, edges); return err })
	if err != nil {
		return 0, fmt.Errorf("adding %d edges: %w", len(edges), err)
	}
	return n, nil
}

// Remove removes edges; see graph.Store.
func (g *Graph) Remove(ctx context.Context, edges []graph.Edge) (n int64, err error) {
	err = g.inTx(ctx, func(tx *sql.Tx) (err error) { n, err = each(ctx, tx, removeSQL, edges); return err })
	if err != nil {
		return 0, fmt.Errorf("removing %d edges: %w", len(edges), err)
	}
	return n, nil
}

// List puts users on the list or takes them off; see graph.Store.
func (g *Graph) List(ctx context.Context, users []schemas.UserID, on bool) error {
	query := `DELETE FROM fanout_users WHERE user_id = ?`
	if on {
		query = `INSERT INTO fanout_users (user_id) VALUES (?) ON CONFLICT DO NOTHING`
	}
	err := g.inTx(ctx, func(tx *sql.Tx) error {
		for _, user := range users {
			if _, err := tx.ExecContext(ctx, query, int64(user)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("changing the list of users who are fanned out: %w", err)
	}
	return nil
}

// Load adds a chunk of a file; see graph.Store.
func (g *Graph) Load(ctx context.Context, file string, from, to int64, edges []graph.Edge) (n int64, err error) {
	err = g.inTx(ctx, func(tx *sql.Tx) error {
		query, arguments := `UPDATE follow_loads SET place = ?2 WHERE file = ?1 AND place = ?3`, []any{file, to, from}
		if from == 0 {
			query = `INSERT INTO follow_loads (file, place) VALUES (?1, ?2) ON CONFLICT (file) DO UPDATE SET place = excluded.place`
			arguments = arguments[:2]
		}
		done, err := tx.ExecContext(ctx, query, arguments...)
		if err != nil {
			return err
		}
		if moved, err := done.RowsAffected(); err != nil || moved != 1 {
			return errors.Join(err, graph.ErrConcurrentLoad)
		}
		n, err = each(ctx, tx, addSQL, edges)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("loading %d edges of %s from byte %d: %w", len(edges), file, from, err)
	}
	return n, nil
}

// Optimize gathers what the planner of queries wants to know.
func (g *Graph) Optimize(ctx context.Context) error {
	if _, err := g.writer.ExecContext(ctx, `PRAGMA optimize`); err != nil {
		return fmt.Errorf("optimizing the graph: %w", err)
	}
	return nil
}

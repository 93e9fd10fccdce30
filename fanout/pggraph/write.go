package pggraph

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// announced is how many users a change names at most; of more it says "all".
const announced = 1000

// Add adds edges; see graph.Store.
func (g *Graph) Add(ctx context.Context, edges []graph.Edge) (int64, error) {
	users, followers := columns(edges)
	var n int64
	err := pgx.BeginFunc(ctx, g.pool, func(tx pgx.Tx) error {
		done, err := tx.Exec(ctx, `INSERT INTO follows (user_id, follower_id)
			SELECT * FROM unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING`, users, followers)
		if err != nil {
			return err
		}
		n = done.RowsAffected()
		return announce(ctx, tx, users)
	})
	if err != nil {
		return 0, fmt.Errorf("adding %d edges: %w", len(edges), err)
	}
	return n, nil
}

// announce tells those who watch; a deletion announces itself.
func announce(ctx context.Context, tx pgx.Tx, users []int64) error {
	distinct := map[int64]bool{}
	for _, u := range users {
		distinct[u] = true
	}
	if len(distinct) > announced {
		distinct = map[int64]bool{0: true}
	}
	all := make([]int64, 0, len(distinct))
	for u := range distinct {
		all = append(all, u)
	}
	_, err := tx.Exec(ctx, `SELECT pg_notify('stillhere_follows', u::text) FROM unnest($1::bigint[]) AS u`, all)
	return err
}

// Remove removes edges; see graph.Store.
func (g *Graph) Remove(ctx context.Context, edges []graph.Edge) (int64, error) {
	users, followers := columns(edges)
	done, err := g.pool.Exec(ctx, `DELETE FROM follows USING unnest($1::bigint[], $2::bigint[]) AS gone (u, f)
		WHERE user_id = gone.u AND follower_id = gone.f`, users, followers)
	if err != nil {
		return 0, fmt.Errorf("removing %d edges: %w", len(edges), err)
	}
	return done.RowsAffected(), nil
}

func columns(edges []graph.Edge) (users, followers []int64) {
	for _, e := range edges {
		users = append(users, int64(e.User))
		followers = append(followers, int64(e.Follower))
	}
	return users, followers
}

// List puts users on the list or takes them off; see graph.Store.
func (g *Graph) List(ctx context.Context, users []schemas.UserID, on bool) error {
	sql := `DELETE FROM fanout_users WHERE user_id = ANY ($1)`
	if on {
		sql = `INSERT INTO fanout_users SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING`
	}
	err := pgx.BeginFunc(ctx, g.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql, numbers(users)); err != nil {
			return err
		}
		return announce(ctx, tx, numbers(users))
	})
	if err != nil {
		return fmt.Errorf("changing the list of users who are fanned out: %w", err)
	}
	return nil
}

// Listed tells who is on the list; see graph.Store.
func (g *Graph) Listed(ctx context.Context, users []schemas.UserID) ([]bool, error) {
	rows, err := g.pool.Query(ctx, `SELECT listed.user_id IS NOT NULL
		FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (user_id, place) LEFT JOIN fanout_users AS listed USING (user_id)
		ORDER BY place`, numbers(users))
	var listed []bool
	if err == nil {
		listed, err = pgx.CollectRows(rows, pgx.RowTo[bool])
	}
	if err != nil {
		return nil, fmt.Errorf("asking which users are fanned out: %w", err)
	}
	return listed, nil
}

// Loaded is how far a file is; see graph.Store.
func (g *Graph) Loaded(ctx context.Context, file string) (int64, error) {
	var position int64
	err := g.pool.QueryRow(ctx, `SELECT place FROM follow_loads WHERE file = $1`, file).Scan(&position)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("asking how far %s was loaded: %w", file, err)
	}
	return position, nil
}

// Load adds a chunk of a file by COPY; see graph.Store.
func (g *Graph) Load(ctx context.Context, file string, from, to int64, edges []graph.Edge) (int64, error) {
	var added int64
	err := pgx.BeginFunc(ctx, g.pool, func(tx pgx.Tx) (err error) {
		if err := movePlace(ctx, tx, file, from, to); err != nil || len(edges) == 0 {
			return err
		}
		added, err = copyEdges(ctx, tx, edges)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("loading %d edges of %s from byte %d: %w", len(edges), file, from, err)
	}
	return added, nil
}

func movePlace(ctx context.Context, tx pgx.Tx, file string, from, to int64) error {
	sql, arguments := `UPDATE follow_loads SET place = $2, changed_at = now() WHERE file = $1 AND place = $3`, []any{file, to, from}
	if from == 0 {
		sql = `INSERT INTO follow_loads (file, place) VALUES ($1, $2)
			ON CONFLICT (file) DO UPDATE SET place = excluded.place, changed_at = now()`
		arguments = arguments[:2]
	}
	done, err := tx.Exec(ctx, sql, arguments...)
	if err == nil && done.RowsAffected() != 1 {
		err = graph.ErrConcurrentLoad
	}
	return err
}

// copyEdges goes by a table of its own, since COPY cannot leave out what is there.
// In the order of the index, or every edge would touch another page of it.
func copyEdges(ctx context.Context, tx pgx.Tx, edges []graph.Edge) (int64, error) {
	if _, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE loading (user_id BIGINT, follower_id BIGINT) ON COMMIT DROP`); err != nil {
		return 0, err
	}
	next := 0
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"loading"}, []string{"user_id", "follower_id"}, pgx.CopyFromFunc(func() ([]any, error) {
		if next == len(edges) {
			return nil, nil
		}
		e := edges[next]
		next++
		return []any{int64(e.User), int64(e.Follower)}, nil
	}))
	if err != nil {
		return 0, err
	}
	done, err := tx.Exec(ctx, `INSERT INTO follows SELECT user_id, follower_id FROM loading ORDER BY user_id, follower_id ON CONFLICT DO NOTHING`)
	return done.RowsAffected(), err
}

// Optimize lets reads use the index alone, which they can once VACUUM has marked
// the pages.
func (g *Graph) Optimize(ctx context.Context) error {
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("vacuuming follows: %w", err)
	}
	defer conn.Release()
	if _, err = conn.Exec(ctx, `SET statement_timeout = 0`); err == nil {
		_, err = conn.Exec(ctx, `VACUUM (ANALYZE) follows`)
	}
	if err != nil {
		return fmt.Errorf("vacuuming follows: %w", err)
	}
	_, err = conn.Exec(ctx, `RESET statement_timeout`)
	return err
}

// Watch listens; see graph.Store.
func (g *Graph) Watch(ctx context.Context, changed func(schemas.UserID)) error {
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("watching follows: %w", err)
	}
	// The connection listens, so nobody else may have it.
	own := conn.Hijack()
	defer func() { _ = own.Close(context.WithoutCancel(ctx)) }()
	if _, err := own.Exec(ctx, `LISTEN stillhere_follows`); err != nil {
		return fmt.Errorf("watching follows: %w", err)
	}
	changed(0)
	for {
		note, err := own.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("watching follows: %w", err)
		}
		// What cannot be read stands for all.
		user, _ := strconv.ParseInt(note.Payload, 10, 64)
		changed(schemas.UserID(user))
	}
}

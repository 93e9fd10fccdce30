// Package pggraph keeps who follows whom in Postgres.
package pggraph

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/page.sql
	pageSQL string
	//go:embed sql/heads.sql
	headsSQL string
	//go:embed sql/ranges.sql
	rangesSQL string
)

// Graph is a graph.Store on Postgres.
type Graph struct {
	config Config
	pool   *pgxpool.Pool
}

var _ graph.Store = (*Graph)(nil)

// Open makes a store. It connects when first used; Migrate must have been run.
func Open(ctx context.Context, config Config) (*Graph, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	settings, err := config.Pool(application)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("opening the Postgres pool: %w", err)
	}
	return &Graph{config: config, pool: pool}, nil
}

// Close waits for running statements and closes the connections.
func (g *Graph) Close() { g.pool.Close() }

// Ping tells whether Postgres answers.
func (g *Graph) Ping(ctx context.Context) error {
	if err := g.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	return nil
}

// Page reads a page; see graph.Store.
func (g *Graph) Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error) {
	rows, err := g.pool.Query(ctx, pageSQL, int64(user), int64(after), int64(through), limit)
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			dst = appendIDs(dst, rows.RawValues()[0])
		}
		err = rows.Err()
	}
	if err != nil {
		return dst, fmt.Errorf("reading followers of %d after %d: %w", user, after, err)
	}
	return dst, nil
}

// Heads reads the first followers; see graph.Store.
func (g *Graph) Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error) {
	heads := make([][]schemas.UserID, 0, len(users))
	rows, err := g.pool.Query(ctx, headsSQL, numbers(users), most)
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			raw := rows.RawValues()[0]
			heads = append(heads, appendIDs(make([]schemas.UserID, 0, len(raw)/8), raw))
		}
		err = rows.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("reading followers of %d users: %w", len(users), err)
	}
	return heads, nil
}

// appendIDs reads what int8send wrote. An aggregate keeps the order of its input,
// but SQL does not promise it.
func appendIDs(dst []schemas.UserID, raw []byte) []schemas.UserID {
	begin, ordered := len(dst), true
	dst = slices.Grow(dst, len(raw)/8)
	last := schemas.UserID(0)
	for ; len(raw) >= 8; raw = raw[8:] {
		id := schemas.UserID(binary.BigEndian.Uint64(raw))
		ordered = ordered && id > last
		last = id
		dst = append(dst, id)
	}
	if !ordered {
		slices.Sort(dst[begin:])
	}
	return dst
}

// Follows tells whom follower follows; see graph.Store.
func (g *Graph) Follows(ctx context.Context, follower schemas.UserID, users []schemas.UserID) ([]bool, error) {
	rows, err := g.pool.Query(ctx, `SELECT EXISTS (SELECT 1 FROM follows WHERE follows.user_id = wanted.user_id AND follower_id = $2)
		FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (user_id, place) ORDER BY place`, numbers(users), int64(follower))
	var follows []bool
	if err == nil {
		follows, err = pgx.CollectRows(rows, pgx.RowTo[bool])
	}
	if err != nil {
		return nil, fmt.Errorf("asking whom of %d users %d follows: %w", len(users), follower, err)
	}
	return follows, nil
}

// Followers tells who of some follows user; see graph.Store.
func (g *Graph) Followers(ctx context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error) {
	rows, err := g.pool.Query(ctx, `SELECT EXISTS (SELECT 1 FROM follows WHERE user_id = $2 AND follows.follower_id = wanted.follower_id)
		FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (follower_id, place) ORDER BY place`, numbers(followers), int64(user))
	var follow []bool
	if err == nil {
		follow, err = pgx.CollectRows(rows, pgx.RowTo[bool])
	}
	if err != nil {
		return nil, fmt.Errorf("asking who of %d users follows %d: %w", len(followers), user, err)
	}
	return follow, nil
}

// Count counts; see graph.Store.
func (g *Graph) Count(ctx context.Context, user schemas.UserID) (int64, error) {
	var n int64
	if err := g.pool.QueryRow(ctx, `SELECT count(*) FROM follows WHERE user_id = $1`, int64(user)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the followers of %d: %w", user, err)
	}
	return n, nil
}

// Ranges cuts; see graph.Store.
func (g *Graph) Ranges(ctx context.Context, user schemas.UserID, size int) ([]schemas.UserID, error) {
	ends, err := g.ranges(ctx, user, size)
	if err != nil {
		return nil, fmt.Errorf("cutting the followers of %d into ranges: %w", user, err)
	}
	return ends, nil
}

func (g *Graph) ranges(ctx context.Context, user schemas.UserID, size int) ([]schemas.UserID, error) {
	const (
		use = `UPDATE follow_ranges SET used_at = now() WHERE user_id = $1 AND used_at > now() - $2::interval RETURNING ends`
		put = `INSERT INTO follow_ranges (user_id, ends, used_at) VALUES ($1, $2, now())
			ON CONFLICT (user_id) DO UPDATE SET ends = excluded.ends, used_at = excluded.used_at`
	)
	rows, err := g.pool.Query(ctx, use, int64(user), graph.RangesKept.String())
	if err != nil {
		return nil, err
	}
	kept, err := pgx.CollectRows(rows, pgx.RowTo[[]int64])
	if err != nil {
		return nil, err
	}
	if len(kept) == 1 {
		return ids(kept[0]), nil
	}
	if rows, err = g.pool.Query(ctx, rangesSQL, int64(user), size); err != nil {
		return nil, err
	}
	ends, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	ends = append(ends, int64(graph.LastID))
	if _, err := g.pool.Exec(ctx, put, int64(user), ends); err != nil {
		return nil, err
	}
	return ids(ends), nil
}

func ids(numbers []int64) []schemas.UserID {
	all := make([]schemas.UserID, len(numbers))
	for i, n := range numbers {
		all[i] = schemas.UserID(n)
	}
	return all
}

func numbers(users []schemas.UserID) []int64 {
	all := make([]int64, len(users))
	for i, u := range users {
		all[i] = int64(u)
	}
	return all
}

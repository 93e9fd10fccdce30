package sqlitegraph

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/ranges.sql
var rangesSQL string

// Page reads a page; see graph.Store.
func (g *Graph) Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error) {
	dst, err := g.collect(ctx, dst, `SELECT follower_id FROM follows WHERE user_id = ? AND follower_id > ? AND follower_id <= ?
		ORDER BY follower_id LIMIT ?`, int64(user), int64(after), int64(through), limit)
	if err != nil {
		return dst, fmt.Errorf("reading followers of %d after %d: %w", user, after, err)
	}
	return dst, nil
}

func (g *Graph) collect(ctx context.Context, dst []schemas.UserID, query string, arguments ...any) ([]schemas.UserID, error) {
	rows, err := g.readers.QueryContext(ctx, query, arguments...)
	if err != nil {
		return dst, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return dst, err
		}
		dst = append(dst, schemas.UserID(id))
	}
	return dst, rows.Err()
}

// Heads reads the first followers; see graph.Store.
func (g *Graph) Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error) {
	// Most users have no followers: one statement leaves them out, however many are asked about.
	followed, err := g.followed(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("asking who of %d users is followed: %w", len(users), err)
	}
	heads := make([][]schemas.UserID, len(users))
	for i, user := range users {
		if _, ok := followed[user]; !ok {
			continue
		}
		if heads[i], err = g.Page(ctx, nil, user, 0, graph.LastID, most); err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// followed are those of users who have followers.
func (g *Graph) followed(ctx context.Context, users []schemas.UserID) (map[schemas.UserID]struct{}, error) {
	ids := make([]string, len(users))
	for i, user := range users {
		ids[i] = user.String()
	}
	found, err := g.collect(ctx, nil, `SELECT value FROM json_each(?) AS asked WHERE EXISTS (SELECT 1 FROM follows WHERE user_id = asked.value)`,
		"["+strings.Join(ids, ",")+"]")
	followed := make(map[schemas.UserID]struct{}, len(found))
	for _, user := range found {
		followed[user] = struct{}{}
	}
	return followed, err
}

// Count counts; see graph.Store.
func (g *Graph) Count(ctx context.Context, user schemas.UserID) (int64, error) {
	var n int64
	if err := g.readers.QueryRowContext(ctx, `SELECT count(*) FROM follows WHERE user_id = ?`, int64(user)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the followers of %d: %w", user, err)
	}
	return n, nil
}

// Follows tells whom follower follows; see graph.Store.
func (g *Graph) Follows(ctx context.Context, follower schemas.UserID, users []schemas.UserID) ([]bool, error) {
	follows := make([]bool, len(users))
	for i, user := range users {
		err := g.readers.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM follows WHERE user_id = ? AND follower_id = ?)`,
			int64(user), int64(follower)).Scan(&follows[i])
		if err != nil {
			return nil, fmt.Errorf("asking whom of %d users %d follows: %w", len(users), follower, err)
		}
	}
	return follows, nil
}

// Followers tells who of some follows user; see graph.Store.
func (g *Graph) Followers(ctx context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error) {
	follow := make([]bool, len(followers))
	for i, follower := range followers {
		err := g.readers.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM follows WHERE user_id = ? AND follower_id = ?)`,
			int64(user), int64(follower)).Scan(&follow[i])
		if err != nil {
			return nil, fmt.Errorf("asking who of %d users follows %d: %w", len(followers), user, err)
		}
	}
	return follow, nil
}

// Listed tells who is on the list; see graph.Store.
func (g *Graph) Listed(ctx context.Context, users []schemas.UserID) ([]bool, error) {
	listed := make([]bool, len(users))
	for i, user := range users {
		err := g.readers.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM fanout_users WHERE user_id = ?)`, int64(user)).Scan(&listed[i])
		if err != nil {
			return nil, fmt.Errorf("asking which users are fanned out: %w", err)
		}
	}
	return listed, nil
}

// Loaded is how far a file is; see graph.Store.
func (g *Graph) Loaded(ctx context.Context, file string) (int64, error) {
	var position int64
	err := g.readers.QueryRowContext(ctx, `SELECT place FROM follow_loads WHERE file = ?`, file).Scan(&position)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("asking how far %s was loaded: %w", file, err)
	}
	return position, nil
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
	now := g.now().UnixMilli()
	var text string
	err := g.writer.QueryRowContext(ctx, `UPDATE follow_ranges SET used_at = ?2 WHERE user_id = ?1 AND used_at > ?3 RETURNING ends`,
		int64(user), now, now-graph.RangesKept.Milliseconds()).Scan(&text)
	switch {
	case err == nil:
		return parseEnds(text)
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	}
	ends, err := g.collect(ctx, nil, rangesSQL, int64(user), size)
	if err != nil {
		return nil, err
	}
	ends = append(ends, graph.LastID)
	_, err = g.writer.ExecContext(ctx, `INSERT INTO follow_ranges (user_id, ends, used_at) VALUES (?1, ?2, ?3)
		ON CONFLICT (user_id) DO UPDATE SET ends = excluded.ends, used_at = excluded.used_at`, int64(user), formatEnds(ends), now)
	return ends, err
}

func formatEnds(ends []schemas.UserID) string {
	words := make([]string, len(ends))
	for i, e := range ends {
		words[i] = e.String()
	}
	return strings.Join(words, ",")
}

func parseEnds(text string) (ends []schemas.UserID, err error) {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		ends = append(ends, schemas.UserID(n))
	}
	return ends, nil
}

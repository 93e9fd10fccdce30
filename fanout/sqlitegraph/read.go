package sqlitegraph

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

func (g *driver) Page() string {
	return `SELECT follower_id FROM follows WHERE user_id = $1 AND follower_id > $2 AND follower_id <= $3
		ORDER BY follower_id LIMIT $4`
}

func (g *driver) In(ids []schemas.UserID) (condition string, argument any) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return "IN (SELECT value FROM json_each($1))", "[" + strings.Join(texts, ",") + "]"
}

func (g *driver) Touch() string { return "" }

func (g *driver) IDs(ctx context.Context, dst []schemas.UserID, query string, arguments ...any) ([]schemas.UserID, error) {
	rows, err := g.Readers.QueryContext(ctx, query, arguments...)
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

func (g *driver) Number(ctx context.Context, query string, arguments ...any) (n int64, err error) {
	if err = g.Readers.QueryRowContext(ctx, query, arguments...).Scan(&n); errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

func (g *driver) Names(ctx context.Context, users []schemas.UserID) (graph.Names, error) {
	condition, list := g.In(users)
	rows, err := g.Readers.QueryContext(ctx, `SELECT user_id, tenant, name FROM follow_names WHERE user_id `+condition, list)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	names := make(graph.Names, len(users))
	for rows.Next() {
		var user int64
		var name schemas.Name
		if err := rows.Scan(&user, &name.Tenant, &name.Text); err != nil {
			return nil, err
		}
		names[schemas.UserID(user)] = name
	}
	return names, rows.Err()
}

// Heads reads a page of each user. Most users have no followers: one query leaves them out.
func (g *driver) Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error) {
	_, list := g.In(users)
	found, err := g.IDs(ctx, nil, `SELECT value FROM json_each($1) AS asked
		WHERE EXISTS (SELECT 1 FROM follows WHERE user_id = asked.value)`, list)
	if err != nil {
		return nil, err
	}
	followed := make(map[schemas.UserID]bool, len(found))
	for _, user := range found {
		followed[user] = true
	}
	heads := make([][]schemas.UserID, len(users))
	for i, user := range users {
		if !followed[user] {
			continue
		}
		if heads[i], err = g.IDs(ctx, nil, g.Page(), int64(user), 0, int64(graph.LastID), most); err != nil {
			return nil, err
		}
	}
	return heads, nil
}

func (g *driver) StoredRanges(ctx context.Context, user schemas.UserID) (ends []schemas.UserID, err error) {
	now := g.now().UnixMilli()
	var text string
	err = g.Writer.QueryRowContext(ctx, `UPDATE follow_ranges SET used_at = $2 WHERE user_id = $1 AND used_at > $3 RETURNING ends`,
		int64(user), now, now-graph.RangesKept.Milliseconds()).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []int64
	if err := json.Unmarshal([]byte("["+text+"]"), &numbers); err != nil {
		return nil, fmt.Errorf("reading stored ranges: %w", err)
	}
	for _, n := range numbers {
		ends = append(ends, schemas.UserID(n))
	}
	return ends, nil
}

func (g *driver) StoreRanges(ctx context.Context, user schemas.UserID, ends []schemas.UserID) error {
	_, list := g.In(ends)
	_, err := g.Writer.ExecContext(ctx, `INSERT INTO follow_ranges (user_id, ends, used_at) VALUES ($1, trim($2, '[]'), $3)
		ON CONFLICT (user_id) DO UPDATE SET ends = excluded.ends, used_at = excluded.used_at`, int64(user), list, g.now().UnixMilli())
	return err
}

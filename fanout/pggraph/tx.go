package pggraph

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// maxAnnounced is how many users a change names at most. A change of more users names "all".
const maxAnnounced = 1000

// tx is a graph.Tx.
type tx struct{ pgx.Tx }

func (g *driver) Transact(ctx context.Context, f func(graph.Tx) error) error {
	return pgx.BeginFunc(ctx, g.pool, func(t pgx.Tx) error { return f(tx{t}) })
}

func (t tx) Exec(ctx context.Context, query string, arguments ...any) (int64, error) {
	done, err := t.Tx.Exec(ctx, query, arguments...)
	return done.RowsAffected(), err
}

func (t tx) Insert(ctx context.Context, edges []graph.Edge) (int64, error) {
	users, followers := columns(edges)
	return t.Exec(ctx, insertSQL, users, followers)
}

func (t tx) Delete(ctx context.Context, edges []graph.Edge) (int64, error) {
	users, followers := columns(edges)
	return t.Exec(ctx, deleteSQL, users, followers)
}

// Name inserts in the order of the ids, so that two transactions do not wait for each other.
func (t tx) Name(ctx context.Context, names graph.Names) (int64, error) {
	users := slices.Sorted(maps.Keys(names))
	tenants, texts := make([]string, len(users)), make([]string, len(users))
	for i, user := range users {
		tenants[i], texts[i] = names[user].Tenant, names[user].Text
	}
	return t.Exec(ctx, `INSERT INTO follow_names SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])
		ON CONFLICT DO NOTHING`, bigints(users), tenants, texts)
}

func columns(edges []graph.Edge) (users, followers []int64) {
	for _, e := range edges {
		users = append(users, int64(e.User))
		followers = append(followers, int64(e.Follower))
	}
	return users, followers
}

func (t tx) Announce(ctx context.Context, users []schemas.UserID) error {
	users = slices.Compact(slices.Sorted(slices.Values(users)))
	if len(users) > maxAnnounced {
		users = []schemas.UserID{0}
	}
	_, err := t.Exec(ctx, `SELECT pg_notify('stillhere_follows', u::text) FROM unnest($1::bigint[]) AS u`, bigints(users))
	return err
}

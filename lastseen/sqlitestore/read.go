package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/users.sql
	usersSQL string
	//go:embed sql/history.sql
	historySQL string
	//go:embed sql/last_show.sql
	lastShowSQL string
	//go:embed sql/missed.sql
	missedSQL string
	//go:embed sql/as_of.sql
	asOfSQL string
	//go:embed sql/export_changes.sql
	exportChangesSQL string
)

// dialect is what SQLite does differently from Postgres.
var dialect = store.Dialect{
	Users: usersSQL, History: historySQL, LastShow: lastShowSQL, Missed: missedSQL,
	In: `IN (SELECT value FROM json_each($1))`, Values: `json_each($1)`, Millis: `%s`,
	List: func(numbers []int64) any { return list(numbers) },
	Asked: func(users, after []int64) []any {
		pairs := make([][2]int64, len(users))
		for i, user := range users {
			pairs[i] = [2]int64{user, after[i]}
		}
		return []any{list(pairs)}
	},
	Instant: func(m schemas.Millis) any { return int64(m) }, Classify: classify,
}

// list is an argument of json_each.
func list(numbers any) string {
	text, _ := json.Marshal(numbers) // there are no other values
	return string(text)
}

// queries is a pool or a transaction as a store.Queryer.
type queries struct {
	sql interface {
		QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
	}
}

func (q queries) Each(ctx context.Context, read func(store.Row) error, query string, arguments ...any) error {
	rows, err := q.sql.QueryContext(ctx, query, arguments...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Changes calls found for the changes of the range, hidden ones included, ordered by instant, user and
// version; the entry is valid until found returns.
func (s *Store) Changes(ctx context.Context, of store.Range, found func(*store.Entry) error) (err error) {
	defer s.Wrap(&err, "reading the log of changes")
	to := of.To
	if to == 0 {
		to = math.MaxInt64
	}
	edges, err := s.Edges(ctx)
	if err != nil {
		return err
	}
	of, shown, flush, err := edges.Changes(ctx, s.Names, of, found)
	if err != nil {
		return err
	}
	if err := entries(ctx, queries{s.Readers}, shown, exportChangesSQL, int64(of.From), int64(to), int64(of.User)); err != nil {
		return err
	}
	return flush()
}

// AsOf is pgstore's AsOf on one file: what was in force at an instant, or a *store.ForgottenError.
func (s *Store) AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, found func(*store.Entry) error) (err error) {
	defer s.Wrap(&err, "reading what was in force at %s", at)
	edges, err := s.Edges(ctx)
	if err != nil {
		return err
	}
	// One snapshot of both: the log may be cut meanwhile.
	tx, err := s.Readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	begins, err := s.Begins(ctx, queries{tx})
	if err != nil {
		return err
	}
	if err := store.CheckKnown(at, begins); err != nil {
		return err
	}
	shown, flush, err := edges.AsOf(ctx, s.Names, at, user, found)
	if err != nil {
		return err
	}
	if err := entries(ctx, queries{tx}, shown, asOfSQL, int64(at), int64(user), begins != 0); err != nil {
		return err
	}
	return flush()
}

// entries runs a query with the columns of export_changes.sql.
func entries(ctx context.Context, from queries, found func(*store.Entry) error, query string, arguments ...any) error {
	return from.Each(ctx, func(row store.Row) (err error) {
		var e store.Entry
		var was, is, cause, visibility, override string
		var event sql.RawBytes
		if err := row.Scan(&e.User, &e.At, &e.Version, &e.Device, &e.LastSeen, &e.LastActive, &was, &is, &cause, &visibility, &e.Kinds,
			&event, &e.Policy, &e.LeftOut, &override); err != nil {
			return err
		}
		if err := store.ParseWords(&e.Transition, was, is, cause); err != nil {
			return err
		}
		if e.Visibility, err = schemas.ParseVisibility("visibility", visibility); err != nil {
			return err
		}
		if e.Override, err = schemas.OverrideOf(override); err != nil {
			return err
		}
		if len(event) > 0 {
			e.SetEvent(event)
		}
		return found(&e)
	}, query, arguments...)
}

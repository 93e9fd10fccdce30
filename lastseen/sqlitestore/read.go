package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
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
)

// Users reads users by id; see store.Reader.
func (s *Store) Users(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	found, err := s.users(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading %d users: %w", len(ids), classify(err))
	}
	return found, nil
}

func (s *Store) users(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	found := make(map[schemas.UserID]schemas.Current, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	rows, err := s.readers.QueryContext(ctx, usersSQL, string(list))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		c, err := scanUser(rows)
		if err != nil {
			return nil, err
		}
		found[c.User] = c
	}
	return found, rows.Err()
}

func scanUser(row *sql.Rows) (schemas.Current, error) {
	var (
		c                 schemas.Current
		state, visibility string
	)
	if err := row.Scan(&c.User, &state, &c.Since, &c.LastSeen, &c.LastActive, &c.Kinds, &visibility, &c.Version, &c.Hidden); err != nil {
		return c, err
	}
	var err error
	if c.State, err = schemas.ParseState("state", state); err != nil {
		return c, err
	}
	c.Visibility, err = schemas.ParseVisibility("visibility", visibility)
	return c, err
}

// History reads a page of changes; see store.Reader.
func (s *Store) History(ctx context.Context, query store.HistoryQuery) (store.Page, error) {
	changes, err := s.history(ctx, query)
	if err == nil {
		err = store.RedactHidden(changes, func(after, through schemas.Millis) (at schemas.Millis, err error) {
			err = s.readers.QueryRowContext(ctx, lastShowSQL, int64(query.User), int64(after), int64(through)).Scan(&at)
			return at, err
		})
	}
	if err != nil {
		return store.Page{}, fmt.Errorf("reading the history of user %d: %w", query.User, classify(err))
	}
	return store.PageOf(query, changes), nil
}

func (s *Store) history(ctx context.Context, query store.HistoryQuery) ([]*schemas.Transition, error) {
	to, after := query.To, query.After
	if to == 0 {
		to = math.MaxInt64
	}
	if after == (store.Cursor{}) {
		after = store.Cursor{At: math.MaxInt64, Version: math.MaxInt64}
	}
	rows, err := s.readers.QueryContext(ctx, historySQL, int64(query.User), int64(query.From), int64(to), int64(after.At),
		int64(after.Version), query.Limit+1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var changes []*schemas.Transition
	for rows.Next() {
		var from, to, cause string
		t := &schemas.Transition{User: query.User, Visibility: schemas.Everyone}
		if err := rows.Scan(&t.At, &t.Version, &t.Device, &t.LastSeen, &t.LastActive, &from, &to, &cause, &t.Kinds, &t.Policy, &t.LeftOut); err != nil {
			return nil, err
		}
		if err := store.ParseWords(t, from, to, cause); err != nil {
			return nil, err
		}
		changes = append(changes, t)
	}
	return changes, rows.Err()
}

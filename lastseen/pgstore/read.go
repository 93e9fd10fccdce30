package pgstore

import (
	"context"
	"fmt"
	"math"
	"time"

	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = int64(id)
	}
	rows, err := s.pool.Query(ctx, usersSQL, numbers)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		c, err := scanUser(rows)
		if err != nil {
			return nil, err
		}
		found[c.User] = c
	}
	return found, rows.Err()
}

func scanUser(row pgx.Rows) (schemas.Current, error) {
	var (
		c                 schemas.Current
		state, visibility string
		since             time.Time
		seen, active      *time.Time
		kinds             int16
	)
	if err := row.Scan((*int64)(&c.User), &state, &since, &seen, &active, &kinds, &visibility, (*int64)(&c.Version),
		(*int64)(&c.Hidden)); err != nil {
		return c, err
	}
	c.Since, c.LastSeen, c.LastActive, c.Kinds = schemas.MillisOf(since), millisOf(seen), millisOf(active), schemas.KindSet(kinds)
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
		err = store.RedactHidden(changes, func(after, through schemas.Millis) (schemas.Millis, error) {
			var at *time.Time
			err := s.pool.QueryRow(ctx, lastShowSQL, int64(query.User), infinite(after, pgtype.NegativeInfinity), through.Time()).Scan(&at)
			return millisOf(at), err
		})
	}
	if err != nil {
		return store.Page{}, fmt.Errorf("reading the history of user %d: %w", query.User, classify(err))
	}
	return store.PageOf(query, changes), nil
}

func (s *Store) history(ctx context.Context, query store.HistoryQuery) ([]*schemas.Transition, error) {
	from, to := infinite(query.From, pgtype.NegativeInfinity), infinite(query.To, pgtype.Infinity)
	after, version := pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}, int64(math.MaxInt64)
	if query.After != (store.Cursor{}) {
		after, version = infinite(query.After.At, pgtype.Infinity), int64(query.After.Version)
		if query.To == 0 || query.After.At < query.To {
			to = infinite(query.After.At+1, pgtype.Infinity)
		}
	}
	rows, err := s.pool.Query(ctx, historySQL, int64(query.User), from, to, after, version, query.Limit+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var changes []*schemas.Transition
	for rows.Next() {
		t, err := scanChange(rows)
		if err != nil {
			return nil, err
		}
		t.User, t.Visibility = query.User, schemas.Everyone
		changes = append(changes, t)
	}
	return changes, rows.Err()
}

// infinite is the instant, or the given end of time for 0.
func infinite(m schemas.Millis, end pgtype.InfinityModifier) pgtype.Timestamptz {
	if m == 0 {
		return pgtype.Timestamptz{Valid: true, InfinityModifier: end}
	}
	return pgtype.Timestamptz{Valid: true, Time: m.Time()}
}

func scanChange(row pgx.Rows) (*schemas.Transition, error) {
	var (
		t               schemas.Transition
		at              time.Time
		device          int64
		seen, active    *time.Time
		from, to, cause string
		kinds           int16
	)
	if err := row.Scan(&at, (*int64)(&t.Version), &device, &seen, &active, &from, &to, &cause, &kinds, &t.Policy, &t.LeftOut); err != nil {
		return nil, err
	}
	t.At, t.LastSeen, t.LastActive = schemas.MillisOf(at), millisOf(seen), millisOf(active)
	t.Device, t.Kinds = schemas.DeviceID(device), schemas.KindSet(kinds)
	return &t, store.ParseWords(&t, from, to, cause)
}

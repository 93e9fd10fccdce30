package pgstore

import (
	"context"
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
	//go:embed sql/missed.sql
	missedSQL string
)

// Position is how far the partition is; see store.Writer.
func (s *Store) Position(ctx context.Context, partition int32) (at store.Position, err error) {
	defer wrap(&err, "reading how far partition %d is", partition)
	const query = `SELECT next_offset, topic_id, latest_ms, log_epoch FROM sink_offsets WHERE partition = $1`
	return store.ScanPosition(s.pool.QueryRow(ctx, query, partition))
}

// Users reads users by id; see store.Reader.
func (s *Store) Users(ctx context.Context, ids []schemas.UserID) (found map[schemas.UserID]schemas.Current, err error) {
	defer wrap(&err, "reading %d users", len(ids))
	found = make(map[schemas.UserID]schemas.Current, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := s.pool.Query(ctx, usersSQL, numbersOf(ids))
	if err != nil {
		return nil, err
	}
	users, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (schemas.Current, error) { return store.ScanCurrent(row) })
	for _, c := range users {
		found[c.User] = c
	}
	return found, err
}

// History reads a page of changes; see store.Reader.
func (s *Store) History(ctx context.Context, query store.HistoryQuery) (page store.Page, err error) {
	defer wrap(&err, "reading the history of user %d", query.User)
	edges, err := s.edges(ctx)
	if err != nil {
		return page, err
	}
	query, some, err := edges.History(ctx, s.Names, query)
	if err != nil || !some {
		return page, err
	}
	from, to, after := query.Bounds()
	rows, err := s.pool.Query(ctx, historySQL, int64(query.User), instant(from), instant(to), instant(after.At), int64(after.Version), query.Limit+1)
	if err != nil {
		return page, err
	}
	changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*schemas.Transition, error) { return store.ScanChange(query.User, row) })
	if err != nil {
		return page, err
	}
	return store.PageOf(query, changes, func(after, through schemas.Millis) (schemas.Millis, error) {
		var at *time.Time
		err := s.pool.QueryRow(ctx, lastShowSQL, int64(query.User), instant(after), instant(through)).Scan(&at)
		return millisOf(at), err
	})
}

// Missed reads changes after versions; see store.Reader.
func (s *Store) Missed(ctx context.Context, query store.MissedQuery) (missed store.Missed, err error) {
	defer wrap(&err, "reading what was missed of %d users", len(query.Users))
	edges, err := s.edges(ctx)
	if err != nil {
		return missed, err
	}
	rows, err := s.pool.Query(ctx, missedSQL, numbersOf(query.Users), numbersOf(query.After), instant(query.From), query.Limit)
	if err != nil {
		return missed, err
	}
	var shown []schemas.Millis
	missed.Changes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*schemas.Transition, error) {
		t, last, err := store.ScanMissed(row)
		shown = append(shown, last)
		return t, err
	})
	if err != nil {
		return missed, err
	}
	store.RedactMissed(missed.Changes, shown)
	if missed.Begins, err = logBegins(ctx, s.pool); err != nil {
		return missed, err
	}
	return edges.Missed(ctx, s.Names, query, missed)
}

func numbersOf[N ~int64](values []N) []int64 {
	numbers := make([]int64, len(values))
	for i, value := range values {
		numbers[i] = int64(value)
	}
	return numbers
}

// instant is a parameter; 0 and MaxInt64 are the ends of time.
func instant(m schemas.Millis) pgtype.Timestamptz {
	switch m {
	case 0:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	case math.MaxInt64:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	}
	return pgtype.Timestamptz{Valid: true, Time: m.Time()}
}

func millisOf(t *time.Time) schemas.Millis {
	if t == nil {
		return 0
	}
	return schemas.MillisOf(*t)
}

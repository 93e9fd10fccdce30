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

// queryer is the file or a transaction on it.
type queryer interface {
	QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, arguments ...any) *sql.Row
}

// each calls read for each row of a query.
func each(ctx context.Context, from queryer, query string, arguments []any, read func(*sql.Rows) error) error {
	rows, err := from.QueryContext(ctx, query, arguments...)
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

// Position is how far the partition is; see store.Writer.
func (s *Store) Position(ctx context.Context, partition int32) (at store.Position, err error) {
	defer wrap(&err, "reading how far partition %d is", partition)
	const query = `SELECT next_offset, topic_id, latest_ms, log_epoch FROM sink_offsets WHERE partition = ?`
	return store.ScanPosition(s.Readers.QueryRowContext(ctx, query, partition))
}

// Users reads users by id; see store.Reader.
func (s *Store) Users(ctx context.Context, ids []schemas.UserID) (found map[schemas.UserID]schemas.Current, err error) {
	defer wrap(&err, "reading %d users", len(ids))
	found = make(map[schemas.UserID]schemas.Current, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return found, each(ctx, s.Readers, usersSQL, []any{string(list)}, func(row *sql.Rows) error {
		c, err := store.ScanCurrent(row)
		found[c.User] = c
		return err
	})
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
	arguments := []any{int64(query.User), int64(from), int64(to), int64(after.At), int64(after.Version), query.Limit + 1}
	var changes []*schemas.Transition
	err = each(ctx, s.Readers, historySQL, arguments, func(row *sql.Rows) error {
		t, err := store.ScanChange(query.User, row)
		changes = append(changes, t)
		return err
	})
	if err != nil {
		return page, err
	}
	return store.PageOf(query, changes, func(after, through schemas.Millis) (at schemas.Millis, err error) {
		err = s.Readers.QueryRowContext(ctx, lastShowSQL, int64(query.User), int64(after), int64(through)).Scan(&at)
		return at, err
	})
}

// Missed reads changes after versions; see store.Reader.
func (s *Store) Missed(ctx context.Context, query store.MissedQuery) (missed store.Missed, err error) {
	defer wrap(&err, "reading what was missed of %d users", len(query.Users))
	edges, err := s.edges(ctx)
	if err != nil {
		return missed, err
	}
	asked := make([][2]int64, len(query.Users))
	for i, user := range query.Users {
		asked[i] = [2]int64{int64(user), int64(query.After[i])}
	}
	list, err := json.Marshal(asked)
	if err != nil {
		return missed, err
	}
	var shown []schemas.Millis
	err = each(ctx, s.Readers, missedSQL, []any{string(list), int64(query.From), query.Limit}, func(row *sql.Rows) error {
		t, last, err := store.ScanMissed(row)
		missed.Changes, shown = append(missed.Changes, t), append(shown, last)
		return err
	})
	if err != nil {
		return missed, err
	}
	store.RedactMissed(missed.Changes, shown)
	if missed.Begins, err = logBegins(ctx, s.Readers); err != nil {
		return missed, err
	}
	return edges.Missed(ctx, s.Names, query, missed)
}

// Changes calls found for the changes of the range, hidden ones included, ordered by instant, user and
// version; the entry is valid until found returns.
func (s *Store) Changes(ctx context.Context, of store.Range, found func(*store.Entry) error) (err error) {
	defer wrap(&err, "reading the log of changes")
	to := of.To
	if to == 0 {
		to = math.MaxInt64
	}
	edges, err := s.edges(ctx)
	if err != nil {
		return err
	}
	of, shown, flush, err := edges.Changes(ctx, s.Names, of, found)
	if err != nil {
		return err
	}
	if err := entries(ctx, s.Readers, exportChangesSQL, []any{int64(of.From), int64(to), int64(of.User)}, shown); err != nil {
		return err
	}
	return flush()
}

// AsOf is pgstore's AsOf on one file: what was in force at an instant, or a *store.ForgottenError.
func (s *Store) AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, found func(*store.Entry) error) (err error) {
	defer wrap(&err, "reading what was in force at %s", at)
	edges, err := s.edges(ctx)
	if err != nil {
		return err
	}
	// One snapshot of both: the log may be cut meanwhile.
	tx, err := s.Readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	begins, err := logBegins(ctx, tx)
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
	if err := entries(ctx, tx, asOfSQL, []any{int64(at), int64(user), begins != 0}, shown); err != nil {
		return err
	}
	return flush()
}

// LogBegins is the instant from which the log of changes is kept; 0 if nothing was ever dropped.
func (s *Store) LogBegins(ctx context.Context) (begins schemas.Millis, err error) {
	defer wrap(&err, "reading where the log of changes begins")
	return logBegins(ctx, s.Readers)
}

func logBegins(ctx context.Context, from queryer) (begins schemas.Millis, err error) {
	err = from.QueryRowContext(ctx, `SELECT coalesce(max(dropped_before), 0) FROM log_edge`).Scan(&begins)
	return begins, err
}

// entries runs a query with the columns of export_changes.sql.
func entries(ctx context.Context, from queryer, query string, arguments []any, found func(*store.Entry) error) error {
	return each(ctx, from, query, arguments, func(row *sql.Rows) (err error) {
		var e store.Entry
		var was, is, cause, visibility string
		var event sql.RawBytes
		if err := row.Scan(&e.User, &e.At, &e.Version, &e.Device, &e.LastSeen, &e.LastActive, &was, &is, &cause, &visibility, &e.Kinds,
			&event, &e.Policy, &e.LeftOut); err != nil {
			return err
		}
		if err := store.ParseWords(&e.Transition, was, is, cause); err != nil {
			return err
		}
		if e.Visibility, err = schemas.ParseVisibility("visibility", visibility); err != nil {
			return err
		}
		if len(event) > 0 {
			e.SetEvent(event)
		}
		return found(&e)
	})
}

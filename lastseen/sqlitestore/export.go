package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/export_changes.sql
var exportChangesSQL string

// Changes calls each for the changes of the range, hidden ones included, ordered
// by instant, user and version; the entry is valid until each returns.
func (s *Store) Changes(ctx context.Context, of store.Range, each func(*store.Entry) error) error {
	to := of.To
	if to == 0 {
		to = math.MaxInt64
	}
	if err := export(ctx, s.readers, exportChangesSQL, []any{int64(of.From), int64(to), int64(of.User)}, each); err != nil {
		return fmt.Errorf("reading the log of changes: %w", err)
	}
	return nil
}

// queryer is the file or a transaction on it.
type queryer interface {
	QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
}

// export runs a query for many changes with the columns of export_changes.sql.
func export(ctx context.Context, from queryer, query string, arguments []any, each func(*store.Entry) error) error {
	rows, err := from.QueryContext(ctx, query, arguments...)
	if err != nil {
		return classify(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e store.Entry
		var was, is, cause, visibility string
		var event sql.RawBytes
		if err := rows.Scan(&e.User, &e.At, &e.Version, &e.Device, &e.LastSeen, &e.LastActive, &was, &is, &cause, &visibility, &e.Kinds,
			&event, &e.Policy, &e.LeftOut); err != nil {
			return classify(err)
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
		if err := each(&e); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

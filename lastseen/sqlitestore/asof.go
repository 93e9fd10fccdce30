package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/as_of.sql
var asOfSQL string

// AsOf is pgstore's AsOf on one file: what was in force at an instant, or a *store.ForgottenError.
func (s *Store) AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) error {
	if err := s.asOf(ctx, at, user, each); err != nil {
		return fmt.Errorf("reading what was in force at %s: %w", at, err)
	}
	return nil
}

func (s *Store) asOf(ctx context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) error {
	// One moment's view of both: the log may be cut meanwhile.
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return classify(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	begins, err := logBegins(ctx, tx)
	if err != nil {
		return classify(err)
	}
	if err := store.CheckKnown(at, begins); err != nil {
		return err
	}
	return export(ctx, tx, asOfSQL, []any{int64(at), int64(user), begins != 0}, each)
}

// LogBegins is the instant from which the log of changes is kept; 0 if nothing was ever dropped.
func (s *Store) LogBegins(ctx context.Context) (schemas.Millis, error) {
	begins, err := logBegins(ctx, s.readers)
	if err != nil {
		return 0, fmt.Errorf("reading where the log of changes begins: %w", classify(err))
	}
	return begins, nil
}

func logBegins(ctx context.Context, from queryer) (begins schemas.Millis, err error) {
	const question = `SELECT coalesce(max(dropped_before), 0) FROM log_edge`
	rows, err := from.QueryContext(ctx, question)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(&begins); err != nil {
			return 0, err
		}
	}
	return begins, rows.Err()
}

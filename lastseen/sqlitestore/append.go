package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "embed"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/upsert_user.sql
	upsertUserSQL string
	//go:embed sql/append_change.sql
	appendChangeSQL string
)

func (s *Store) prepare(ctx context.Context) error {
	for statement, text := range map[**sql.Stmt]string{&s.appendChange: appendChangeSQL, &s.upsertUser: upsertUserSQL} {
		var err error
		if *statement, err = s.Writer.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// Append writes the batch; see store.Writer. The outcome of a commit is always known: the database is
// in this process.
func (s *Store) Append(ctx context.Context, batch store.Batch) (err error) {
	defer s.Wrap(&err, "writing offsets %d to %d of partition %d", batch.Expected, batch.Next, batch.Partition)
	edges, err := s.Edges(ctx)
	if err != nil {
		return err
	}
	tx, err := s.Writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	if err := s.MoveOffset(ctx, queries{tx}, batch); err != nil {
		return err
	}
	changes, erasures, err := s.SplitErased(ctx, queries{tx}, batch)
	if err != nil {
		return err
	}
	if err := erase(ctx, tx, batch.Partition, erasures); err != nil {
		return err
	}
	change := tx.StmtContext(ctx, s.appendChange)
	for _, t := range edges.Logged(changes) {
		if _, err := change.ExecContext(ctx, int64(t.User), int64(t.At), int64(t.Version), t.EventID().String(),
			schemas.StateWord(t.From), schemas.StateWord(t.To), schemas.CauseWord(t.Cause), schemas.VisibilityWord(t.Visibility),
			orNull(int64(t.Device)), int64(t.Kinds), orNull(int64(t.LastSeen)), orNull(int64(t.LastActive)), t.Policy, int64(t.LeftOut),
			orNull(t.Override.Text())); err != nil {
			return err
		}
	}
	user := tx.StmtContext(ctx, s.upsertUser)
	for _, u := range store.Fold(changes) {
		if _, err := user.ExecContext(ctx, int64(u.User), schemas.StateWord(u.State), int64(u.Since), orNull(int64(u.LastSeen)),
			orNull(int64(u.LastActive)), int64(u.Kinds), schemas.VisibilityWord(u.Visibility), int64(u.Version), int64(u.Hidden),
			u.SinceKnown, u.HiddenKnown, orNull(u.Override.Text())); err != nil {
			return err
		}
	}
	if err := s.WriteDenies(ctx, queries{tx}, changes); err != nil {
		return err
	}
	if err := writeNames(ctx, tx, store.NamesOf(changes)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if len(erasures) > 0 {
		s.Scrub()
	}
	return nil
}

// orNull is NULL for the zero value.
func orNull[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

// classify marks errors that will not pass.
func classify(err error) error {
	var answer *sqlite.Error
	if errors.As(err, &answer) {
		switch answer.Code() & 0xff { // the rest of the code is the detail
		case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
	}
	return err
}

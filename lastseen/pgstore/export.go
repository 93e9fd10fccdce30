package pgstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/export_days.sql
	exportDaysSQL string
	//go:embed sql/export_changes.sql
	exportChangesSQL string
	//go:embed sql/export_changes_of.sql
	exportChangesOfSQL string
)

// Changes calls each for the changes of the range, hidden ones included, ordered by instant, user
// and version; the entry is valid until each returns. It reads one UTC day at a time, each in one
// snapshot.
func (s *Store) Changes(ctx context.Context, of store.Range, each func(*store.Entry) error) (err error) {
	defer s.Wrap(&err, "reading the log of changes")
	edges, err := s.Edges(ctx)
	if err != nil {
		return err
	}
	of, shown, flush, err := edges.Changes(ctx, s.Names, of, each)
	if err != nil {
		return err
	}
	rows, err := s.pool.Query(ctx, exportDaysSQL)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return err
	}
	for _, d := range all {
		from, to := schemas.MillisOf(d), schemas.MillisOf(d.Add(day))
		from = max(from, of.From)
		if of.To != 0 {
			to = min(to, of.To)
		}
		if from >= to {
			continue
		}
		sql, arguments := exportChangesSQL, []any{from.Time(), to.Time()}
		if of.User != 0 {
			sql, arguments = exportChangesOfSQL, append(arguments, int64(of.User))
		}
		if err := s.reading(ctx, func(tx pgx.Tx) error { return readEntries(ctx, tx, sql, arguments, shown) }); err != nil {
			return fmt.Errorf("%s: %w", d.Format(time.DateOnly), err)
		}
	}
	return flush()
}

// reading runs act in a read-only transaction without statement timeout, because the caller may be
// slow.
func (s *Store) reading(ctx context.Context, act func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0; SET LOCAL work_mem = '128MB'`, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		return act(tx)
	})
}

func readEntries(ctx context.Context, tx pgx.Tx, sql string, arguments []any, each func(*store.Entry) error) error {
	rows, err := tx.Query(ctx, sql, append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, arguments...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var reader entryReader
	for rows.Next() {
		if err := reader.read(rows.RawValues()); err != nil {
			return err
		}
		if err := each(&reader.entry); err != nil {
			return err
		}
	}
	return rows.Err()
}

// entryReader decodes rows in Postgres's binary form without an allocation per row.
type entryReader struct {
	entry  store.Entry
	states map[string]schemas.State
	causes map[string]schemas.Cause
	seen   map[string]schemas.Visibility
}

func (r *entryReader) read(columns [][]byte) error {
	const wanted = 15
	if len(columns) != wanted {
		return fmt.Errorf("a change has %d columns, want %d", len(columns), wanted)
	}
	e := &r.entry
	policy := e.Policy
	*e = store.Entry{Transition: schemas.Transition{
		User: schemas.UserID(int8Of(columns[0])), At: instantOf(columns[1]), Version: schemas.Version(int8Of(columns[2])),
		Device: schemas.DeviceID(int8Of(columns[3])), LastSeen: instantOf(columns[4]), LastActive: instantOf(columns[5]),
		Policy: policy, LeftOut: uint32(int8Of(columns[13])),
	}}
	if len(columns[10]) == 2 {
		e.Kinds = schemas.KindSet(binary.BigEndian.Uint16(columns[10]))
	}
	var err error
	if e.From, err = wordIn(&r.states, columns[6], func(w string) (schemas.State, error) { return schemas.ParseState("from_state", w) }); err != nil {
		return err
	}
	if e.To, err = wordIn(&r.states, columns[7], func(w string) (schemas.State, error) { return schemas.ParseState("to_state", w) }); err != nil {
		return err
	}
	if e.Cause, err = wordIn(&r.causes, columns[8], store.ParseCause); err != nil {
		return err
	}
	if e.Visibility, err = wordIn(&r.seen, columns[9], func(w string) (schemas.Visibility, error) { return schemas.ParseVisibility("visibility", w) }); err != nil {
		return err
	}
	if string(columns[12]) != policy {
		e.Policy = string(columns[12])
	}
	if len(columns[11]) > 0 {
		e.SetEvent(columns[11])
	}
	e.Override, err = schemas.OverrideOf(string(columns[14]))
	return err
}

// wordIn is parse with a cache.
func wordIn[T any](words *map[string]T, text []byte, parse func(string) (T, error)) (T, error) {
	if value, known := (*words)[string(text)]; known {
		return value, nil
	}
	value, err := parse(string(text))
	if err != nil {
		return value, err
	}
	if *words == nil {
		*words = map[string]T{}
	}
	(*words)[string(text)] = value
	return value, nil
}

// int8Of reads a bigint; 0 for NULL.
func int8Of(column []byte) int64 {
	if len(column) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(column))
}

// instantOf reads a timestamptz; 0 for NULL.
func instantOf(column []byte) schemas.Millis {
	if len(column) != 8 {
		return 0
	}
	return schemas.Millis(int64(binary.BigEndian.Uint64(column))/1000 + postgresZero)
}

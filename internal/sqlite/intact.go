package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"modernc.org/sqlite"
)

// ErrCorrupt is returned for a damaged file.
var ErrCorrupt = errors.New("is damaged")

// EnsureIntact checks that a database and its write-ahead log, if there are any, are as they were
// written. An error is one line with the file. With accept it warns and continues with the readable
// rows; the damaged files get names that end in .damaged. A changed value in a sealed file (Seal) is
// detected but cannot be located, so it stays. Nobody else may use the file meanwhile.
func EnsureIntact(ctx context.Context, path string, accept bool, log *slog.Logger) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	file, what := path+"-wal", ""
	if what, err = checkWAL(file); err != nil {
		return err
	}
	if what == "" { // before SQLite opens it
		file = path
		if what, err = checkSeal(path); err != nil {
			return fmt.Errorf("checking that %s is intact: %w", path, err)
		}
	}
	if what == "" {
		if what, err = integrity(ctx, path); err != nil {
			return fmt.Errorf("checking that %s is intact: %w", path, err)
		}
	}
	if what == "" {
		return unseal(path)
	}
	if !accept {
		return fmt.Errorf("%s %w: %s; put a copy of the data directory in its place, or start with the intact data by --accept-data-loss", file, ErrCorrupt, what)
	}
	log.Warn("data is lost: a SQLite file was damaged, and the intact rest of it is used", "file", file, "fault", what)
	if err := salvage(ctx, path); err != nil {
		return fmt.Errorf("continuing without the damaged data of %s: %w", file, err)
	}
	return unseal(path)
}

// integrity is the fault that SQLite finds, in one line; empty: none. It returns an error if SQLite could
// not check, as when another process has locked the file.
func integrity(ctx context.Context, path string) (fault string, err error) {
	db, err := sql.Open("sqlite", address(path, url.Values{"_pragma": {"busy_timeout(5000)"}}))
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	var found string
	err = db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&found)
	if known := new(sqlite.Error); errors.As(err, &known) {
		const corrupt, notADatabase = 11, 26
		if code := known.Code() & 0xff; code == corrupt || code == notADatabase {
			found, err = known.Error(), nil
		}
	}
	if err != nil || found == "ok" {
		return "", err
	}
	return strings.Join(strings.Fields(found), " "), nil
}

// salvage copies every readable row into a new file, which replaces the damaged one. If the schema
// cannot be read, the new file is empty.
func salvage(ctx context.Context, path string) error {
	fresh := path + ".salvaged"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := copyRows(ctx, path, fresh); err != nil {
		return err
	}
	var faults []error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+suffix+".damaged"); !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(append(faults, os.Rename(fresh, path))...)
}

func copyRows(ctx context.Context, from, to string) (err error) {
	source, err := sql.Open("sqlite", address(from, url.Values{"_pragma": {"busy_timeout(5000)"}}))
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // of a damaged file
	target, err := sql.Open("sqlite", address(to, url.Values{"_pragma": {"synchronous(OFF)"}}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	target.SetMaxOpenConns(1)
	for _, what := range []string{"type = 'table'", "type <> 'table'"} { // creating indexes is faster at the end
		schema, err := texts(ctx, source, `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND `+what)
		if err != nil {
			break // nothing more can be read
		}
		for _, create := range schema {
			if _, err := target.ExecContext(ctx, create); err != nil {
				return fmt.Errorf("running %q: %w", create, err)
			}
		}
		if what == "type = 'table'" {
			tables, err := texts(ctx, target, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
			if err != nil {
				return err
			}
			for _, table := range tables {
				if err := copyTable(ctx, source, target, table); err != nil {
					return fmt.Errorf("copying the table %s: %w", table, err)
				}
			}
		}
	}
	if _, err := target.ExecContext(ctx, `PRAGMA user_version`); err != nil { // creates the file even without a table
		return err
	}
	return ctx.Err()
}

// texts is a query's only column.
func texts(ctx context.Context, db *sql.DB, query string, arguments ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

// copyTable copies the readable rows of a table from its beginning, and then from its end back to the
// damage. Errors of the source are expected: they are at the damage.
func copyTable(ctx context.Context, source, target *sql.DB, table string) error {
	columns, err := texts(ctx, target, `SELECT name FROM pragma_table_info(?)`, table)
	if err != nil {
		return err
	}
	key, err := texts(ctx, target, `SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk`, table)
	if err != nil {
		return err
	}
	backwards := "rowid DESC"
	if _, err := target.ExecContext(ctx, `SELECT rowid FROM `+quoted(table)); err != nil { // it has no rowid
		for i := range key {
			key[i] = quoted(key[i]) + " DESC"
		}
		backwards = strings.Join(key, ", ")
	}
	insert := `INSERT OR IGNORE INTO ` + quoted(table) + ` VALUES (?` + strings.Repeat(", ?", len(columns)-1) + `)`
	for _, order := range []string{"", " ORDER BY " + backwards} {
		rows, err := source.QueryContext(ctx, `SELECT * FROM `+quoted(table)+` NOT INDEXED`+order)
		if err != nil {
			continue
		}
		err = insertAll(ctx, target, insert, rows, len(columns))
		_ = rows.Close() // its error is that of the last row
		if err != nil {
			return err
		}
	}
	return nil
}

func insertAll(ctx context.Context, target *sql.DB, insert string, rows *sql.Rows, columns int) error {
	tx, err := target.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	to, err := tx.PrepareContext(ctx, insert)
	if err != nil {
		return err
	}
	values, into := make([]any, columns), make([]any, columns)
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if rows.Scan(into...) != nil {
			break
		}
		if _, err := to.ExecContext(ctx, values...); err != nil && ctx.Err() != nil {
			return err
		} // otherwise the row breaks a rule of its table: it is damaged
	}
	return tx.Commit()
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

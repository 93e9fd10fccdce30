package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// ErrCorrupt is returned for a damaged file.
var ErrCorrupt = errors.New("is damaged")

// checkFor bounds the check of a file.
const checkFor = 2 * time.Second

// CheckIntact lets SQLite check the structure of a database (PRAGMA quick_check), for a few seconds at most:
// a file too large for that passes. A missing file is intact. The error is one line.
func CheckIntact(ctx context.Context, path string) error {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	found, err := quickCheck(bounded, path)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil, err == nil && found == "ok":
		return nil
	case err != nil:
		return fmt.Errorf("checking that %s is intact: %w", path, err)
	}
	return fmt.Errorf("%s %w: %s", path, ErrCorrupt, strings.Join(strings.Fields(found), " "))
}

// quickCheck is the first fault, or ok.
func quickCheck(ctx context.Context, path string) (found string, err error) {
	db, err := sql.Open("sqlite", address(path, url.Values{"_pragma": {"busy_timeout(5000)"}}))
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }() // it was only read
	err = db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&found)
	if known := new(sqlite.Error); errors.As(err, &known) {
		const corrupt, notADatabase = 11, 26
		if code := known.Code() & 0xff; code == corrupt || code == notADatabase {
			return known.Error(), nil
		}
	}
	return found, err
}

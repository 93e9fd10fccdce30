package sqlite

import (
	"context"
	"time"
)

// scrubPause is how long a log that a reader holds is left alone.
const scrubPause = time.Second

// Scrub removes soon what was deleted from the write-ahead log too: its content goes to the file, where
// deleted rows are overwritten, and the log is emptied. A reader can delay it.
func (db *DB) Scrub() {
	select {
	case db.scrubs <- struct{}{}:
	default: // one is asked for
	}
}

// scrub ends when ctx does.
func (db *DB) scrub(ctx context.Context) {
	for {
		select {
		case <-db.scrubs:
		case <-ctx.Done():
			return
		}
		for !db.emptyLog(ctx) {
			select {
			case <-time.After(scrubPause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// emptyLog reports whether the log is empty now.
func (db *DB) emptyLog(ctx context.Context) bool {
	var busy, frames, moved int
	err := db.Readers.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved)
	return err == nil && busy == 0
}

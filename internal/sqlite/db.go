package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/migrate"
)

// DB is an open file with up-to-date tables. Any goroutine may use it.
type DB struct {
	Writer  *sql.DB // one connection
	Readers *sql.DB
	schema  migrate.State

	scrubs   chan struct{}
	stop     context.CancelFunc
	scrubber sync.WaitGroup
}

// Open opens or creates the file and brings a service's tables up to date. busy is how long a
// connection waits for another's lock.
func Open(ctx context.Context, path string, busy time.Duration, readers int, plan migrate.Plan) (*DB, error) {
	db := &DB{scrubs: make(chan struct{}, 1)}
	var err error
	if db.Writer, err = sql.Open("sqlite", storeAddress(path, "immediate", busy)); err == nil {
		db.Writer.SetMaxOpenConns(1)
		db.schema, err = migrate.SQLite(ctx, db.Writer, path, plan)
	}
	if err == nil {
		db.Readers, err = sql.Open("sqlite", storeAddress(path, "deferred", busy))
	}
	if err == nil {
		db.Readers.SetMaxOpenConns(readers)
		db.Readers.SetMaxIdleConns(readers)
		err = db.Ping(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	db.stop = stop
	db.scrubber.Go(func() { db.scrub(background) })
	return db, nil
}

// Schema compares the tables, as they were at Open, with this program.
func (db *DB) Schema(context.Context) (migrate.State, error) { return db.schema, nil }

// Ping returns an error if the file cannot be read.
func (db *DB) Ping(ctx context.Context) error { return db.Readers.PingContext(ctx) }

// Close waits for running statements and closes the file.
func (db *DB) Close() error {
	if db.stop != nil {
		db.stop()
		db.scrubber.Wait()
	}
	var faults []error
	for _, pool := range []*sql.DB{db.Readers, db.Writer} {
		if pool != nil {
			faults = append(faults, pool.Close())
		}
	}
	return errors.Join(faults...)
}

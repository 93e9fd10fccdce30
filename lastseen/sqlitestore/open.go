// Package sqlitestore keeps last seen and the audit log in one SQLite file.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/sqlite"
)

// Config says which file and how long to keep.
type Config struct {
	// Path is the file, created if missing. SQLite keeps files with the suffixes -wal and -shm
	// beside it.
	Path string
	// AuditRetention is how long changes are kept.
	AuditRetention time.Duration
	// MaintainEvery is the pause between two rounds of Run.
	MaintainEvery time.Duration
}

const day = 24 * time.Hour

// Defaults lack only the path.
func Defaults() Config { return Config{AuditRetention: 400 * day, MaintainEvery: time.Hour} }

// Validate reports everything that is wrong, joined, each fault naming its
// setting.
func (c Config) Validate() error {
	var faults []error
	if c.Path == "" {
		faults = append(faults, errors.New("sqlite_path: must not be empty"))
	}
	if c.AuditRetention < day {
		faults = append(faults, fmt.Errorf("audit_retention: must be at least 24h, is %s", c.AuditRetention))
	}
	if c.MaintainEvery <= 0 {
		faults = append(faults, fmt.Errorf("sqlite_maintain_every: must be positive, is %s", c.MaintainEvery))
	}
	return errors.Join(faults...)
}

// Store is a store.Writer and store.Reader on a SQLite file. All methods may be called from any
// goroutine; writes wait for one another. A power cut may lose the last transactions
// (synchronous=NORMAL), in order and each as a whole, offsets with rows, so the sink writes them
// again. A kill loses nothing.
type Store struct {
	config  Config
	writer  *sql.DB // one connection
	readers *sql.DB
	schema  migrate.State

	offsetFirst, offsetLater, appendChange, upsertUser *sql.Stmt
}

// Open opens the file and brings its schema up to date.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Store{config: config}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", config.Path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	const readers = 4
	var err error
	if s.writer, err = sql.Open("sqlite", sqlite.Address(s.config.Path, "immediate", busy)); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if s.readers, err = sql.Open("sqlite", sqlite.Address(s.config.Path, "deferred", busy)); err != nil {
		return err
	}
	s.readers.SetMaxOpenConns(readers)
	s.readers.SetMaxIdleConns(readers)
	return s.prepare(ctx)
}

// busy is how long a connection waits for another's lock.
const busy = 5 * time.Second

// Close waits for running statements and closes the file.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.readers, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Ping tells whether the file can be read.
func (s *Store) Ping(ctx context.Context) error { return s.readers.PingContext(ctx) }

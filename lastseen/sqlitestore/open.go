// Package sqlitestore keeps last seen and the audit log in one SQLite file.
package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/sqlite"
	"github.com/stillhere/stillhere/lastseen/store"
)

// Config is the file and its retention.
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

// Validate returns all faults, joined, each with its setting.
func (c Config) Validate() error {
	var all faults.List
	all.If(c.Path == "", "sqlite_path: must not be empty")
	all.If(c.AuditRetention < day, "audit_retention: must be at least 24h, is %s", c.AuditRetention)
	all.If(c.MaintainEvery <= 0, "sqlite_maintain_every: must be positive, is %s", c.MaintainEvery)
	return all.Err()
}

// Store is a store.Writer and store.Reader on a SQLite file. All methods may be called from any
// goroutine; writes wait for one another. A power cut may lose the last transactions
// (synchronous=NORMAL), in order and each as a whole, offsets with rows, so the sink writes them
// again. A kill loses nothing.
type Store struct {
	*sqlite.DB
	*store.Tables
	config Config

	appendChange, upsertUser *sql.Stmt
}

//go:embed migrations/*.sql
var migrations embed.FS

var schema = migrate.Plan{Service: "lastseen", Files: migrate.Folder(migrations), Table: "stillhere_lastseen_migrations"}

const (
	// busyTimeout is how long a connection waits for another's lock.
	busyTimeout = 5 * time.Second
	maxReaders  = 4
)

// Open opens the file and brings its schema up to date.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, config.Path, busyTimeout, maxReaders, schema)
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", config.Path, err)
	}
	s := &Store{DB: db, Tables: store.NewTables(queries{db.Readers}, queries{db.Writer}, dialect), config: config}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", config.Path, err), s.Close())
	}
	return s, nil
}

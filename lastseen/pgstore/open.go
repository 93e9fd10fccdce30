// Package pgstore keeps last seen and the audit log in Postgres.
package pgstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/lastseen/store"
)

// Store is a store.Writer and store.Reader on Postgres. All methods may be called from any goroutine.
type Store struct {
	*store.Tables
	config Config
	pool   *pgxpool.Pool
	// careful is set while batches are partly in the log already, as after a reset of the consumer
	// group; see append.go.
	careful atomic.Bool
	buffers sync.Pool // of *[]byte, for COPY
	steps   *prometheus.HistogramVec
	// unpartitioned counts the rows in the default partition.
	unpartitioned prometheus.Gauge
	// commit ends a transaction; tests cut it short.
	commit func(context.Context, pgx.Tx) error
}

// Open makes a store. It connects when first used, so Postgres may be down. Migrate must have
// brought the schema up to date.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	settings, err := config.pool()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("opening the Postgres pool: %w", err)
	}
	return &Store{
		Tables: store.NewTables(queries{pool}, queries{pool}, dialect), config: config, pool: pool, steps: newSteps(), unpartitioned: newUnpartitioned(), buffers: sync.Pool{New: func() any { return new([]byte) }},
		commit: func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
	}, nil
}

// Close waits for running statements and closes the connections.
func (s *Store) Close() { s.pool.Close() }

// Ping returns an error if Postgres does not answer.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	return nil
}

// registerEnums registers our enumerations, whose OIDs differ from database to database; binary
// COPY needs them.
func registerEnums(ctx context.Context, conn *pgx.Conn) error {
	types, err := conn.LoadTypes(ctx, []string{"presence_state", "presence_cause", "presence_visibility"})
	if err != nil {
		return fmt.Errorf("loading the types of the schema, which Migrate makes: %w", err)
	}
	conn.TypeMap().RegisterTypes(types)
	return nil
}

// PoolStats are the counters of the connections to Postgres.
func (s *Store) PoolStats() *pgxpool.Stat { return s.pool.Stat() }

package pgstore

import "github.com/jackc/pgx/v5/pgxpool"

// PoolStats tells what the connections to Postgres are doing.
func (s *Store) PoolStats() *pgxpool.Stat { return s.pool.Stat() }

package pggraph

import (
	"time"

	"github.com/stillhere/stillhere/internal/postgres"
)

// Config says which Postgres and how to treat it. Start from Defaults.
type Config = postgres.Config

// application is the name of these connections in pg_stat_activity.
const application = "stillhere-fanout"

// Defaults lack only the URL.
func Defaults() Config {
	return Config{MaxConns: 8, ConnectTimeout: 3 * time.Second, StatementTimeout: time.Minute, LockTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second}
}

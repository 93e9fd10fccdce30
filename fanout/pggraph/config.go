package pggraph

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says which Postgres and how to treat it. Start from Defaults.
type Config struct {
	// URL is a connection string as libpq reads it; what it says about timeouts
	// goes before the fields below.
	URL string
	// Password is asked for before each connection, in place of the URL's; nil: the
	// URL's, or what libpq's files and variables say.
	Password func() (string, error)
	// MaxConns is the greatest number of connections of this process.
	MaxConns int32
	// ConnectTimeout bounds the making of a connection, StatementTimeout a
	// statement, LockTimeout its waiting for a lock.
	ConnectTimeout, StatementTimeout, LockTimeout time.Duration
	// IdleTimeout ends a transaction that was left open.
	IdleTimeout time.Duration
}

// Defaults lack only the URL.
func Defaults() Config {
	return Config{MaxConns: 8, ConnectTimeout: 3 * time.Second, StatementTimeout: time.Minute, LockTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second}
}

const driverTimeout = 2 * time.Minute

// Validate reports everything that is wrong, joined, each fault naming its
// setting. It never shows the password of the URL.
func (c Config) Validate() error {
	var faults []error
	if c.URL == "" {
		faults = append(faults, errors.New("postgres_url: must not be empty"))
	} else if _, err := pgxpool.ParseConfig(c.URL); err != nil {
		faults = append(faults, fmt.Errorf("postgres_url: %w", err))
	}
	if c.MaxConns < 1 {
		faults = append(faults, fmt.Errorf("postgres_max_conns: must be at least 1, is %d", c.MaxConns))
	}
	for name, d := range map[string]time.Duration{"postgres_connect_timeout": c.ConnectTimeout,
		"postgres_statement_timeout": c.StatementTimeout, "postgres_lock_timeout": c.LockTimeout,
		"postgres_idle_timeout": c.IdleTimeout} {
		if d < time.Millisecond {
			faults = append(faults, fmt.Errorf("%s: must be at least 1ms, is %s", name, d))
		}
	}
	return errors.Join(faults...)
}

func (c Config) settle(conn *pgx.ConnConfig) {
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout == driverTimeout {
		conn.ConnectTimeout = c.ConnectTimeout
	}
	for name, value := range map[string]string{
		"application_name":  "stillhere-fanout",
		"timezone":          "UTC",
		"statement_timeout": milliseconds(c.StatementTimeout),
		"lock_timeout":      milliseconds(c.LockTimeout),

		"idle_in_transaction_session_timeout": milliseconds(c.IdleTimeout),
	} {
		if _, given := conn.RuntimeParams[name]; !given {
			conn.RuntimeParams[name] = value
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

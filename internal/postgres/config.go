package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says which Postgres and how to treat it. Start from the Defaults of a store.
type Config struct {
	// URL is a connection string as libpq reads it. What it says about timeouts
	// and names goes before the fields below. With PgBouncer in transaction mode
	// add default_query_exec_mode=exec.
	URL string
	// Password is asked for before each connection, in place of the URL's; nil: the
	// URL's, or what libpq's files and variables say.
	Password func() (string, error)
	// MaxConns is the greatest number of connections of this process.
	MaxConns int32
	// ConnectTimeout bounds the making of one connection: to a server that hangs,
	// as after a crash, there is no answer for minutes.
	ConnectTimeout time.Duration
	// StatementTimeout ends a statement that runs longer, LockTimeout one that
	// waits longer for a lock; IdleTimeout ends a transaction that was left open.
	StatementTimeout, LockTimeout, IdleTimeout time.Duration
}

// driverTimeout is pgx's own for making a connection, which a URL is unlikely to ask for.
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
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{
		{"postgres_connect_timeout", c.ConnectTimeout},
		{"postgres_statement_timeout", c.StatementTimeout},
		{"postgres_lock_timeout", c.LockTimeout},
		{"postgres_idle_timeout", c.IdleTimeout},
	} {
		if limit.value < time.Millisecond {
			faults = append(faults, fmt.Errorf("%s: must be at least 1ms, is %s", limit.name, limit.value))
		}
	}
	return errors.Join(faults...)
}

// Pool is the configuration of a pool: the URL, and of the limits what the URL leaves
// open. application is what pg_stat_activity calls it.
func (c Config) Pool(application string) (*pgxpool.Config, error) {
	pool, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the Postgres URL: %w", err)
	}
	pool.MaxConns = c.MaxConns
	pool.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error { return c.identify(conn) }
	conn := pool.ConnConfig
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout == driverTimeout {
		conn.ConnectTimeout = c.ConnectTimeout
	}
	Prefer(conn, map[string]string{
		"application_name":                    application,
		"timezone":                            "UTC",
		"statement_timeout":                   milliseconds(c.StatementTimeout),
		"lock_timeout":                        milliseconds(c.LockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(c.IdleTimeout),
	})
	return pool, nil
}

// Prefer sets the server's parameters for a connection where the URL leaves them open.
func Prefer(conn *pgx.ConnConfig, parameters map[string]string) {
	for name, value := range parameters {
		if _, given := conn.RuntimeParams[name]; !given {
			conn.RuntimeParams[name] = value
		}
	}
}

// identify puts the password of the moment into a connection that is about to be made.
func (c Config) identify(conn *pgx.ConnConfig) (err error) {
	if c.Password != nil {
		conn.Password, err = c.Password()
	}
	return err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

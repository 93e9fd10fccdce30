package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says which Postgres and how to treat it. Start from Defaults.
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
	// AuditRetention is how long changes are kept; whole UTC days are dropped.
	AuditRetention time.Duration
	// DaysAhead is how many days after today have their partition made in advance.
	DaysAhead int
	// MaintainEvery is the pause between two rounds of Run.
	MaintainEvery time.Duration
}

// Defaults are settings for one process of the room.
func Defaults() Config {
	return Config{
		MaxConns:         16,
		ConnectTimeout:   3 * time.Second,
		StatementTimeout: 30 * time.Second,
		LockTimeout:      5 * time.Second,
		IdleTimeout:      30 * time.Second,
		AuditRetention:   400 * day,
		DaysAhead:        3,
		MaintainEvery:    time.Hour,
	}
}

const (
	day           = 24 * time.Hour
	driverTimeout = 2 * time.Minute
)

// Validate reports everything that is wrong, joined, each fault naming its
// setting. It never shows the password of the URL.
func (c Config) Validate() error {
	var faults []error
	if _, err := pgxpool.ParseConfig(c.URL); err != nil {
		faults = append(faults, fmt.Errorf("postgres_url: %w", err))
	}
	if c.URL == "" {
		faults = append(faults, errors.New("postgres_url: must not be empty"))
	}
	if c.MaxConns < 1 {
		faults = append(faults, fmt.Errorf("postgres_max_conns: must be at least 1, is %d", c.MaxConns))
	}
	for name, d := range map[string]time.Duration{
		"postgres_connect_timeout": c.ConnectTimeout, "postgres_statement_timeout": c.StatementTimeout, "postgres_lock_timeout": c.LockTimeout,
		"postgres_idle_timeout": c.IdleTimeout, "postgres_maintain_every": c.MaintainEvery,
	} {
		if d < time.Millisecond {
			faults = append(faults, fmt.Errorf("%s: must be at least 1ms, is %s", name, d))
		}
	}
	if c.AuditRetention < day {
		faults = append(faults, fmt.Errorf("audit_retention: must be at least 24h, is %s", c.AuditRetention))
	}
	if c.DaysAhead < 1 {
		faults = append(faults, fmt.Errorf("postgres_days_ahead: must be at least 1, is %d", c.DaysAhead))
	}
	return errors.Join(faults...)
}

// pool is the pool's configuration: the URL, and of the rest what the URL leaves
// open.
func (c Config) pool() (*pgxpool.Config, error) {
	pool, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the Postgres URL: %w", err)
	}
	pool.MaxConns = c.MaxConns
	if c.Password != nil {
		pool.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
			password, err := c.Password()
			conn.Password = password
			return err
		}
	}
	c.settle(pool.ConnConfig)
	return pool, nil
}

func (c Config) settle(conn *pgx.ConnConfig) {
	// The driver's own default is two minutes, which a URL is unlikely to ask for.
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout == driverTimeout {
		conn.ConnectTimeout = c.ConnectTimeout
	}
	for name, value := range map[string]string{
		"application_name":                    "stillhere-lastseen",
		"timezone":                            "UTC",
		"statement_timeout":                   milliseconds(c.StatementTimeout),
		"lock_timeout":                        milliseconds(c.LockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(c.IdleTimeout),
		// Its estimates take the upsert of a great batch for an analysis that is worth
		// being compiled, which took a sixth of the time of 10,000 rows.
		"jit": "off",
	} {
		if _, given := conn.RuntimeParams[name]; !given {
			conn.RuntimeParams[name] = value
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

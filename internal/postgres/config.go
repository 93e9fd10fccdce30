package postgres

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stillhere/stillhere/internal/faults"
)

// Config is the address of a server and the limits of its connections. Start from the Defaults of
// a store.
type Config struct {
	// URL is a connection string of libpq. Its timeouts and names take precedence over the fields
	// below. With PgBouncer in transaction mode add default_query_exec_mode=exec.
	URL string
	// Password returns the password for each connection; nil: that of the URL, or of libpq's files
	// and variables.
	Password func() (string, error)
	// MaxConns bounds the connections of this process.
	MaxConns int32
	// ConnectTimeout bounds one connection attempt: a server that hangs does not answer for minutes.
	ConnectTimeout time.Duration
	// StatementTimeout bounds a statement, LockTimeout its wait for a lock, IdleTimeout a
	// transaction without statements.
	StatementTimeout, LockTimeout, IdleTimeout time.Duration
}

// driverTimeout is the connect timeout that pgx sets if the URL has none.
const driverTimeout = 2 * time.Minute

// Validate reports all faults, joined; each names its setting, and none shows the URL's password.
func (c Config) Validate() error {
	var all faults.List
	if c.URL == "" {
		all.If(true, "postgres_url: must not be empty")
	} else {
		_, err := pgxpool.ParseConfig(c.URL)
		all.In("postgres_url", err)
	}
	all.If(c.MaxConns < 1, "postgres_max_conns: must be at least 1, is %d", c.MaxConns)
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{
		{"postgres_connect_timeout", c.ConnectTimeout},
		{"postgres_statement_timeout", c.StatementTimeout},
		{"postgres_lock_timeout", c.LockTimeout},
		{"postgres_idle_timeout", c.IdleTimeout},
	} {
		all.If(limit.value < time.Millisecond, "%s: must be at least 1ms, is %s", limit.name, limit.value)
	}
	return all.Err()
}

// Pool is the configuration of a pool: the URL, and the limits that the URL does not set.
// application is its name in pg_stat_activity.
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

// Prefer sets parameters of the server that the URL does not set.
func Prefer(conn *pgx.ConnConfig, parameters map[string]string) {
	for name, value := range parameters {
		if _, given := conn.RuntimeParams[name]; !given {
			conn.RuntimeParams[name] = value
		}
	}
}

// identify sets the current password before a connection attempt.
func (c Config) identify(conn *pgx.ConnConfig) (err error) {
	if c.Password != nil {
		conn.Password, err = c.Password()
	}
	return err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Address names the server and the database without what is secret, and lists the hosts.
func (c Config) Address() (shown string, hosts []string) {
	parsed, err := pgx.ParseConfig(c.URL)
	if err != nil {
		return "(cannot be read)", nil
	}
	for _, server := range append([]*pgconn.FallbackConfig{{Host: parsed.Host, Port: parsed.Port}}, parsed.Fallbacks...) {
		at := net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port)))
		if strings.HasPrefix(server.Host, "/") { // the directory of a socket
			at = server.Host
		}
		if !slices.Contains(hosts, at) {
			hosts = append(hosts, at)
		}
	}
	return strings.Join(hosts, ",") + "/" + parsed.Database, hosts
}

// Hosts are the hosts that a URL or a connection string in libpq's format leads to, also by PGHOST and its parameters.
// A path is the folder of a Unix socket.
func Hosts(text string) ([]string, error) {
	c, err := pgconn.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	hosts := []string{c.Host}
	for _, other := range c.Fallbacks {
		hosts = append(hosts, other.Host)
	}
	return hosts, nil
}

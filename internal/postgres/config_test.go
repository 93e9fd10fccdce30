package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func config(url string) Config {
	return Config{URL: url, MaxConns: 4, ConnectTimeout: 3 * time.Second, StatementTimeout: 30 * time.Second, LockTimeout: 5 * time.Second, IdleTimeout: time.Minute}
}

func TestWhatTheURLSaysGoesFirst(t *testing.T) {
	t.Parallel()
	pool, err := config("postgres://me@host/db?application_name=mine&lock_timeout=7&connect_timeout=9").Pool("ours")
	must.Do(t, err)
	conn := pool.ConnConfig
	Prefer(conn, map[string]string{"lock_timeout": "8", "jit": "off"})
	if conn.ConnectTimeout != 9*time.Second || pool.MaxConns != 4 {
		t.Error(conn.ConnectTimeout, pool.MaxConns)
	}
	for name, want := range map[string]string{"application_name": "mine", "lock_timeout": "7", "statement_timeout": "30000",
		"idle_in_transaction_session_timeout": "60000", "timezone": "UTC", "jit": "off"} {
		if got := conn.RuntimeParams[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestAnAddressIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://me:hush@db:5433/stillhere?sslmode=disable":                     "db:5433/stillhere",
		"postgres://me:hush@a:1,b:2/stillhere?sslmode=disable&passfile=/hush":      "a:1,b:2/stillhere",
		"host=db port=5433 user=me password=hush dbname=stillhere sslmode=disable": "db:5433/stillhere",
		"postgres://me@/stillhere?host=/run/postgresql&sslmode=disable":            "/run/postgresql/stillhere",
		"postgres://me:hush@db:x/stillhere":                                        "(cannot be read)",
	} {
		if got, _ := config(url).Address(); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

func TestThePasswordIsThatOfTheMoment(t *testing.T) {
	t.Parallel()
	c := config("postgres://me:old@host/db")
	password, fault := "first", error(nil)
	c.Password = func() (string, error) { return password, fault }
	pool := must.Get(c.Pool("ours"))(t)
	for _, password = range []string{"first", "second"} {
		conn := pool.ConnConfig.Copy()
		if err := pool.BeforeConnect(t.Context(), conn); err != nil || conn.Password != password {
			t.Errorf("%q (%v), want %q", conn.Password, err, password)
		}
	}
	fault = errors.New("the file is gone")
	if err := pool.BeforeConnect(t.Context(), pool.ConnConfig.Copy()); !errors.Is(err, fault) {
		t.Error(err)
	}
}

func TestWithoutASourceThePasswordIsTheURLs(t *testing.T) {
	t.Parallel()
	pool := must.Get(config("postgres://me:old@host/db").Pool("ours"))(t)
	conn := pool.ConnConfig.Copy()
	if err := pool.BeforeConnect(t.Context(), conn); err != nil || conn.Password != "old" {
		t.Error(conn.Password, err)
	}
}

func TestEveryFaultIsNamed(t *testing.T) {
	t.Parallel()
	must.Do(t, config("postgres://me@host/db").Validate())
	err := Config{URL: "postgres://me:secret@[bad"}.Validate()
	for _, name := range []string{"postgres_url", "postgres_max_conns", "postgres_connect_timeout", "postgres_statement_timeout",
		"postgres_lock_timeout", "postgres_idle_timeout"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is shown: %v", err)
	}
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
)

func TestPostgresIsReachedWithTLSAndAnUnknownAuthorityIsRefused(t *testing.T) {
	t.Parallel()
	a := keystest.New(t)
	pair := a.Issue("postgres", time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := pgtest.StartTLS(ctx, pair.Cert, pair.Key)
	if errors.Is(err, pgtest.ErrMissing) {
		t.Skip(err)
	}
	must.Do(t, err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := Defaults()
	config.Password = func() (string, error) { return "from a file", nil }
	at := func(ca string) string {
		return fmt.Sprintf("postgres://stillhere@127.0.0.1:%d/postgres?sslmode=verify-full&sslrootcert=%s", server.Port(), ca)
	}
	config.URL = at(a.CA)
	must.Do(t, Migrate(t.Context(), config))
	s := must.Get(Open(t.Context(), config))(t)
	t.Cleanup(s.Close)
	var encrypted bool
	if err := s.pool.QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&encrypted); err != nil || !encrypted {
		t.Fatal("the connection is not encrypted", err)
	}

	config.URL = at(keystest.New(t).CA)
	other := must.Get(Open(t.Context(), config))(t)
	t.Cleanup(other.Close)
	if err := other.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Fatalf("under another authority: %v", err)
	}
}

func TestConnectionsCarryTheLimitsOfTheSettings(t *testing.T) {
	t.Parallel()
	config := newConfig(t)
	must.Do(t, Migrate(t.Context(), config))
	config.StatementTimeout, config.LockTimeout, config.IdleTimeout, config.MaxConns = 7*time.Second, 3*time.Second, 9*time.Second, 2
	s := must.Get(Open(t.Context(), config))(t)
	t.Cleanup(s.Close)
	if got := s.pool.Config().MaxConns; got != 2 {
		t.Errorf("at most %d connections", got)
	}
	for setting, want := range map[string]string{
		"statement_timeout": "7s", "lock_timeout": "3s", "idle_in_transaction_session_timeout": "9s", "application_name": "stillhere-lastseen", "timezone": "UTC",
	} {
		var got string
		if err := s.pool.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", setting, got, want, err)
		}
	}
}

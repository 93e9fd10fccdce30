package pgstore

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/internal/postgres"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestSchemaIsMigratedOnceWhenManyStartAtOnce(t *testing.T) {
	t.Parallel()
	config := newConfig(t)
	errs := make([]error, 4)
	var done sync.WaitGroup
	for i := range errs {
		done.Go(func() { errs[i] = Migrate(t.Context(), config) })
	}
	done.Wait()
	must.Do(t, errors.Join(errs...))
	s := must.Get(Open(t.Context(), config))(t)
	defer s.Close()
	state, err := s.Schema(t.Context())
	if err != nil || state.Schema < 1 || state.Schema != state.Known {
		t.Errorf("migrated to %+v (%v)", state, err)
	}
	// Every step was applied by one of them, in order, and is noted once.
	const history = `SELECT version_id FROM stillhere_lastseen_migrations WHERE is_applied ORDER BY id`
	rows := must.Get(s.pool.Query(t.Context(), history))(t)
	applied := must.Get(pgx.CollectRows(rows, pgx.RowTo[int64]))(t)
	var want []int64 // the first one, 0, is the tool's own
	for version := range state.Known + 1 {
		want = append(want, version)
	}
	if !slices.Equal(applied, want) {
		t.Errorf("applied were %v, want %v", applied, want)
	}
	// Nor does a later start do anything again.
	must.Do(t, Migrate(t.Context(), config))
	var again int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM stillhere_lastseen_migrations`).Scan(&again); err != nil || again != len(want) {
		t.Errorf("after another start %d steps are noted (%v), want %d", again, err, len(want))
	}
	days := tableDays(t, s)
	if len(days) < 2 || len(slices.Compact(slices.Clone(days))) != len(days) {
		t.Errorf("there are the days %v", days)
	}
}

// at is a change of user 1 at an instant given in RFC 3339.
func at(t *testing.T, version int64, text string) *schemas.Transition {
	t.Helper()
	instant := must.Get(time.Parse(time.RFC3339, text))(t)
	return &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: schemas.MillisOf(instant),
		Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: schemas.Version(version)}
}

func tableDays(t *testing.T, s *Store) []string {
	t.Helper()
	rows := must.Get(s.pool.Query(t.Context(), daysSQL))(t)
	var found []string
	for rows.Next() {
		var d time.Time
		must.Do(t, rows.Scan(&d))
		found = append(found, d.Format(time.DateOnly))
	}
	must.Do(t, rows.Err())
	return found
}

func TestDaysAreMadeAheadAndDroppedWhenTheirLastRowIsTooOld(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.config.AuditRetention, s.config.DaysAhead = 48*time.Hour, 2
	// In many zones neither of these is the same day as in UTC.
	maintain(t, s, "2024-02-28T23:59:59+00:00", "2024-02-28", "2024-02-29", "2024-03-01")
	maintain(t, s, "2024-03-02T01:00:00+05:00", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02", "2024-03-03")
	maintain(t, s, "2024-03-02T23:59:59Z", "2024-02-29", "2024-03-01", "2024-03-02", "2024-03-03", "2024-03-04")
	maintain(t, s, "2024-03-03T00:00:00Z", "2024-03-01", "2024-03-02", "2024-03-03", "2024-03-04", "2024-03-05")
}

// maintain maintains at now and wants these days and, from Migrate, those around the real now.
func maintain(t *testing.T, s *Store, now string, want ...string) {
	t.Helper()
	must.Do(t, s.Maintain(t.Context(), timeOf(t, now)))
	got := slices.DeleteFunc(tableDays(t, s), func(d string) bool { return d >= "2025" })
	if !slices.Equal(got, want) {
		t.Fatalf("days %v, want %v", got, want)
	}
}

func TestRowsWithoutADayAreCaughtAndGetOneLater(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	log := []*schemas.Transition{
		at(t, 1, "2026-03-28T23:59:59.999Z"), at(t, 2, "2026-03-29T00:00:00.000Z"), at(t, 3, "2026-03-29T23:59:59.999Z"),
		at(t, 4, "2026-03-31T00:00:00.000Z"),
	}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 4, Changes: log}))
	now := timeOf(t, "2026-04-01T00:00:00Z")
	must.Do(t, s.Maintain(t.Context(), now))
	must.Do(t, s.Maintain(t.Context(), now))
	for table, want := range map[string]int{
		"status_changes_default": 0, "status_changes_p20260328": 1, "status_changes_p20260329": 2, "status_changes_p20260331": 1,
	} {
		var rows int
		must.Do(t, s.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&rows))
		if rows != want {
			t.Errorf("%s has %d rows, want %d", table, rows, want)
		}
	}
	page, err := s.History(t.Context(), store.HistoryQuery{User: 1, Limit: 10})
	if err != nil || len(page.Changes) != len(log) {
		t.Fatalf("history has %d changes (%v), want %d", len(page.Changes), err, len(log))
	}
	// The rows are still known as written.
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 4, Next: 8, Changes: log}))
	if page, err = s.History(t.Context(), store.HistoryQuery{User: 1, Limit: 10}); err != nil || len(page.Changes) != len(log) {
		t.Fatalf("history has %d changes (%v) after writing again, want %d", len(page.Changes), err, len(log))
	}
}

func TestConfigNamesEveryFaultAndNoPassword(t *testing.T) {
	t.Parallel()
	err := Config{Config: postgres.Config{URL: "postgres://me:secret@[bad"}}.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, name := range []string{"postgres_url", "postgres_max_conns", "postgres_lock_timeout", "audit_retention", "postgres_days_ahead"} {
		if !containsText(err, name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if containsText(err, "secret") {
		t.Errorf("the password is shown: %v", err)
	}
}

func containsText(err error, text string) bool { return strings.Contains(err.Error(), text) }

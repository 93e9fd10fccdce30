package pgstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// fill makes rows of some days behind the store's back: users in turn, a row each
// some seconds.
func fill(tb testing.TB, s *Store, users, rows, days int) {
	tb.Helper()
	s.config.DaysAhead = days
	must.Do(tb, s.Maintain(tb.Context(), timeOf(tb, "2026-11-01T00:00:00Z")))
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO status_changes SELECT 1 + (i * 7919 %% %[1]d), '2026-11-01T00:00:00Z'::timestamptz + i * interval '1 second' * %[3]g, i, 7,
			'2026-11-01', '2026-11-01', 'offline', 'online', 'first_beat', 'everyone', 2, lpad(i::text, 27, '0'), 'p-1' FROM generate_series(1::bigint, %[2]d) i`,
			users, rows, float64(days)*86400/float64(rows+1)),
		fmt.Sprintf(`INSERT INTO user_presence SELECT i, '2026-11-01', '2026-11-01', '2026-11-01', 1, 0, 'online', 'everyone', 2 FROM generate_series(1, %d) i`, users),
		`ANALYZE status_changes`, `ANALYZE user_presence`,
	} {
		// Millions of rows take longer than a statement of ours may.
		must.Get(s.pool.Exec(tb.Context(), "BEGIN; SET LOCAL statement_timeout = 0; "+sql+"; COMMIT", pgx.QueryExecModeSimpleProtocol))(tb)
	}
}

func timeOf(tb testing.TB, text string) time.Time {
	tb.Helper()
	at := must.Get(time.Parse(time.RFC3339, text))(tb)
	return at
}

func plan(t *testing.T, s *Store, sql string, arguments ...any) string {
	t.Helper()
	rows := must.Get(s.pool.Query(t.Context(), "EXPLAIN (COSTS OFF) "+sql, arguments...))(t)
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		must.Do(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	must.Do(t, rows.Err())
	return strings.Join(lines, "\n")
}

// fullScan is of a table with rows; days without a row have no page to read.
var fullScan = regexp.MustCompile(`Seq Scan on (status_changes_p2026110[1-4]|user_presence)`)

func TestReadsOfUsersAndHistoriesGoByIndexAndOpenNoDayTheyDoNotNeed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	fill(t, s, 5000, 20_000, 4)
	infinity := func(m pgtype.InfinityModifier) pgtype.Timestamptz {
		return pgtype.Timestamptz{Valid: true, InfinityModifier: m}
	}
	last := infinity(pgtype.Infinity)
	second := pgtype.Timestamptz{Valid: true, Time: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)}
	third := pgtype.Timestamptz{Valid: true, Time: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)}
	for name, got := range map[string]string{
		"a whole history": plan(t, s, historySQL, int64(7), infinity(pgtype.NegativeInfinity), last, last, int64(1)<<62, 100),
		"a day of it":     plan(t, s, historySQL, int64(7), second, third, last, int64(1)<<62, 100),
		"users":           plan(t, s, usersSQL, []int64{1, 2, 3}),
	} {
		if fullScan.MatchString(got) || !strings.Contains(got, "_pkey") {
			t.Errorf("%s is read like this:\n%s", name, got)
		}
		if name == "a day of it" && (strings.Contains(got, "20261101") || strings.Contains(got, "20261103") || !strings.Contains(got, "20261102")) {
			t.Errorf("%s opens other days:\n%s", name, got)
		}
	}
}

// BenchmarkHistory reads pages of 50 of the histories of random users among
// STILLHERE_BENCH_ROWS rows [200,000] of 30 days.
func BenchmarkHistory(b *testing.B) {
	rows := 200_000
	if text := os.Getenv("STILLHERE_BENCH_ROWS"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	s := newStore(b)
	users := rows / 50
	fill(b, s, users, rows, 30)
	for _, limit := range []int{50, 1000} {
		b.Run(strconv.Itoa(limit), func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				begun := time.Now()
				page, err := s.History(b.Context(), store.HistoryQuery{User: schemas.UserID(1 + rand.IntN(users)), Limit: limit})
				if err != nil || len(page.Changes) == 0 {
					b.Fatal(len(page.Changes), err)
				}
				times = append(times, time.Since(begun))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

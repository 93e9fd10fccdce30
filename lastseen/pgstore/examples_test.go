package pgstore_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
)

// inPython runs the statements of standard input, a JSON array, in DuckDB and prints the rows of the last one.
const inPython = `import duckdb, json, sys
c = duckdb.connect()
for s in json.load(sys.stdin):
    c.execute(s)
print("\n".join(" ".join(str(v) if isinstance(v, int) else v.strftime("%m-%d") if hasattr(v, "strftime") else "%.0f" % v for v in row) for row in c.fetchall()))`

// examples are the queries for data teams, with data and the rows that they give.
var examples = []struct {
	file  string
	query int  // which statement of the file
	all   bool // all of them
	data  string
	after string // what reads the result of statements that write
	want  string
}{
	{file: "changes.sql", query: 1, data: `CREATE TABLE status_changes (user_id bigint, "at" timestamptz, version bigint, to_state text, visibility text);
INSERT INTO status_changes VALUES
(1, '2026-10-24 21:00Z', 1, 'online', 'everyone'), (1, '2026-10-24 23:00Z', 2, 'offline', 'everyone'),
(2, '2026-09-01 12:00Z', 1, 'online', 'everyone'),
(3, '2026-10-25 10:00Z', 1, 'online', 'everyone'), (3, '2026-10-25 11:00Z', 2, 'online', 'nobody'),
(3, '2026-10-25 15:00Z', 3, 'online', 'everyone'), (3, '2026-10-25 15:30Z', 4, 'away', 'everyone'),
(4, '2026-10-24 12:00Z', 1, 'online', 'everyone'), (4, '2026-10-24 13:00Z', 2, 'offline', 'everyone'),
(5, '2026-10-25 22:30Z', 1, 'online', 'everyone'), (5, '2026-10-26 01:00Z', 2, 'offline', 'everyone')`,
		want: "2 90000\n3 5400\n1 3600\n5 1800"}, // all of 25 hours; not while hidden; from midnight; until midnight
	{file: "active-users.sql", query: 0, data: sessions, want: "10-30 2\n10-31 1\n11-01 2"},
	{file: "active-users.sql", query: 1, data: sessions, want: "10-01 2\n11-01 2"},
	{file: "erasures.sql", query: 1, all: true, data: `CREATE TABLE changes (user_id bigint, version bigint, cause text, changed_at timestamptz);
CREATE TABLE sessions (user_id bigint, ended_at timestamptz);
INSERT INTO changes VALUES (1, 1, 'first_beat', '2026-10-01'), (1, 5, 'erased', '2026-10-03'), (1, 7, 'first_beat', '2026-10-04'),
(2, 1, 'first_beat', '2026-10-01');
INSERT INTO sessions VALUES (1, '2026-10-02'), (1, '2026-10-05'), (2, '2026-10-02')`,
		after: `SELECT user_id, version FROM changes UNION ALL SELECT user_id, 100 FROM sessions ORDER BY 1, 2`,
		want:  "1 5\n1 7\n1 100\n2 1\n2 100"},
}

const sessions = `SET timezone = 'UTC';
CREATE TABLE sessions (user_id bigint, device_kind text, started_at timestamptz, ended_at timestamptz);
INSERT INTO sessions VALUES (1, 'any', '2026-10-30 10:00Z', '2026-11-01 02:00Z'), (2, 'any', '2026-10-30 23:00Z', '2026-10-31 00:00Z'),
(2, 'any', '2026-10-30 09:00Z', '2026-10-30 10:00Z'), (3, 'any', '2026-11-01 09:00Z', '2026-11-01 10:00Z'), (1, 'web', '2026-10-30 10:00Z', '2026-11-01 02:00Z')`

// statements are those of a file of SQL.
func statements(t *testing.T, text string) (all []string) {
	t.Helper()
	for s := range strings.SplitSeq(text, ";") {
		if lines := strings.Split(strings.TrimSpace(s), "\n"); !strings.HasPrefix(lines[len(lines)-1], "--") {
			all = append(all, s)
		}
	}
	return all
}

func TestTheQueriesForDataTeamsGiveTheRightRowsInPostgresAndDuckDB(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		text := must.Get(os.ReadFile(filepath.Join("..", "..", "schemas", "examples", e.file)))(t)
		run := statements(t, string(text))
		if !e.all {
			run = run[e.query : e.query+1]
		}
		run = append(strings.Split(e.data, ";"), run...)
		if e.after != "" {
			run = append(run, e.after)
		}
		if got := inPostgres(t, run); got != e.want {
			t.Errorf("%s, statement %d, in Postgres:\n%s\nwant\n%s", e.file, e.query, got, e.want)
		}
		if python := os.Getenv("STILLHERE_TEST_PYTHON"); python != "" {
			in, _ := json.Marshal(run)
			command := exec.CommandContext(t.Context(), python, "-c", inPython)
			command.Stdin = strings.NewReader(string(in))
			if out, err := command.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != e.want {
				t.Errorf("%s, statement %d, in DuckDB: %v\n%s\nwant\n%s", e.file, e.query, err, out, e.want)
			}
		}
	}
}

// inPostgres runs statements in a transaction that is undone, and returns the rows of the last one.
func inPostgres(t *testing.T, all []string) string {
	t.Helper()
	ctx := t.Context()
	conn := must.Get(pgx.Connect(ctx, pgtest.URL(t)))(t)
	defer func() { _ = conn.Close(ctx) }()
	last := len(all) - 1
	for _, s := range all[:last] {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	rows, err := conn.Query(ctx, all[last])
	if err != nil {
		t.Fatalf("%s: %v", all[last], err)
	}
	var lines []string
	for rows.Next() {
		values := must.Get(rows.Values())(t)
		line := make([]string, len(values))
		for i, v := range values {
			switch v := v.(type) {
			case time.Time:
				line[i] = v.UTC().Format("01-02")
			case pgtype.Numeric:
				f, _ := v.Float64Value()
				line[i] = fmt.Sprintf("%.0f", f.Float64)
			default:
				line[i] = fmt.Sprint(v)
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	must.Do(t, rows.Err())
	return strings.Join(lines, "\n")
}

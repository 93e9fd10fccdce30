//go:build unix

package process_test

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// printing is a command that prints rows.
type printing struct {
	words    []string
	rows     int      // at least; -1: none
	object   bool     // JSON is one object
	derived  []string // columns that JSON has in another form
	volatile []string // fields that differ between two runs
}

// formatsAgree runs the command in every format, reads each by a reader of its own, and compares the rows.
func (k *keyboard) formatsAgree(p printing) {
	k.Helper()
	in := func(format string) string {
		return k.types(0, nil, append(slices.Clone(p.words), "--output", format)...)
	}
	fromCSV, fromParquet := readCSV(k.T, in("csv")), readParquet(k.T, in("parquet"))
	lines, document := decodeJSON(k.T, in("jsonl")), decodeJSON(k.T, in("json"))
	table := in("table")
	switch n := len(fromCSV.rows); {
	case p.rows < 0 && n > 0, n < p.rows:
		k.Errorf("%q: %d rows, want %d", p.words, n, p.rows)
	case !slices.Equal(fromCSV.columns, fromParquet.columns), len(fromParquet.rows) != n, len(lines) != n, len(document) != 1:
		k.Fatalf("%q: CSV has %d rows of %q, Parquet %d of %q, JSON lines %d, JSON %d documents",
			p.words, n, fromCSV.columns, len(fromParquet.rows), fromParquet.columns, len(lines), len(document))
	case n > 0 && strings.Count(table, "\n") == 0:
		k.Errorf("%q: the table is %q", p.words, table)
	}
	for i, row := range fromCSV.rows {
		line, ok := lines[i].(map[string]any)
		if !ok {
			k.Fatalf("%q: line %d is %v", p.words, i, lines[i])
		}
		for _, column := range fromCSV.columns {
			if slices.Contains(p.volatile, column) {
				continue
			}
			if got := fromParquet.rows[i][column]; got != row[column] {
				k.Errorf("%q: row %d, %s: Parquet has %q, CSV %q", p.words, i, column, got, row[column])
			}
			if slices.Contains(p.derived, column) || column == "active_kinds" { // in JSON kinds says it
				continue
			}
			if got, ok := jsonText(line, column); !ok && row[column] != "" && row[column] != "0" || ok && !sameText(got, row[column]) {
				k.Errorf("%q: row %d, %s: JSON has %q (%v), CSV %q: %v", p.words, i, column, got, ok, row[column], line)
			}
		}
	}
	elements, isArray := document[0].([]any)
	if isArray == p.object {
		k.Fatalf("%q: JSON is %v", p.words, document[0])
	}
	if !p.object && len(elements)+len(lines) > 0 && !reflect.DeepEqual(without(elements, p.volatile), without(lines, p.volatile)) {
		k.Errorf("%q: JSON is %v, and JSON lines %v", p.words, elements, lines)
	}
}

// printer is a dev in whose pipeline nothing changes while its commands run, and a person who has contexts for it.
func printer(t *testing.T, flags ...string) *keyboard {
	t.Helper()
	h := testkit.NewDev(t, append(flags, "--policy=online_ttl=20m,away_ttl=30m,idle_after=0s")...)
	h.Up()
	return keyboardOf(h, len(flags) > 0)
}

// inStatus are the fields of a status that change from one second to the next.
var inStatus = []string{"at", "lag_records", "lag_seconds", "watermark_age_seconds", "users", "last_seen_at", "ready"}

// intPrinting are the commands on a pipeline of users 1 and 2, of whom 1 has followers.
func intPrinting(k *keyboard, recording string) []printing {
	graph := []string{"--sqlite", filepath.Join(k.Dir, "graph.db")}
	until := time.Now().UTC().Format(time.RFC3339Nano)
	all := []printing{
		{words: []string{"get", "1", "2", "9"}, rows: 3},
		{words: []string{"get", "1"}, rows: 1},
		{words: []string{"audience", "1", "2"}, rows: 2},
		{words: []string{"override", "get", "1", "2"}, rows: 2},
		{words: []string{"history", "1", "--to", until}, rows: 1},
		{words: []string{"history", "99"}, rows: -1},
		{words: []string{"replay", "--to", until}, rows: 2, derived: []string{"override"}},
		{words: []string{"replay", "99"}, rows: -1},
		{words: []string{"asof", until}, rows: 2, derived: []string{"override"}},
		{words: []string{"asof", until, "99"}, rows: -1},
		{words: []string{"sessions", "--from", "-1h", "--to", until}, rows: 2},
		{words: []string{"sessions", "99", "--from", "-1h", "--to", until}, rows: -1},
		{words: []string{"policy", "show", "all"}, rows: 1, derived: []string{"differs"}},
		{words: []string{"policy", "show"}, rows: 10, object: true},
		{words: []string{"backtest", "--policy", "log", "--policy", "chat", "--recording", recording, "--warm-up", "0s"}, rows: 2, object: true},
		{words: []string{"plan", "--users", "5M"}, rows: 20, object: true},
		{words: []string{"topics", "acls", "--role", "detector", "--principal", "User:d"}, rows: 5},
		{words: []string{"topics", "apply"}, rows: 8},
		{words: append([]string{"graph", "followers", "1"}, graph...), rows: 2},
		{words: append([]string{"graph", "followers", "9"}, graph...), rows: -1},
		{words: append([]string{"graph", "followers", "1", "--table", "count"}, graph...), rows: 1, object: true},
	}
	for table, least := range map[string]int{"instances": 1, "partitions": 4, "groups": 5, "gateways": 0} {
		all = append(all, printing{words: []string{"status", "--table", table}, rows: least, derived: []string{"members"}, volatile: inStatus})
	}
	return all
}

// textPrinting are the commands on a pipeline whose users have names: ann and another one of acme.
func textPrinting(k *keyboard) []printing {
	store, graph := []string{"--sqlite", filepath.Join(k.Dir, "stillhere.db")}, []string{"--sqlite", filepath.Join(k.Dir, "graph.db")}
	until := time.Now().UTC().Format(time.RFC3339Nano)
	return []printing{
		{words: []string{"get", "ann", oneil, "carl", "--tenant", "acme"}, rows: 3},
		{words: []string{"history", "ann", "--tenant", "acme", "--to", until}, rows: 1},
		{words: []string{"replay", "--to", until}, rows: 2},
		{words: []string{"asof", until, "--tenant", "acme"}, rows: 2},
		{words: []string{"sessions", "--from", "-1h", "--to", until}, rows: 2},
		{words: []string{"policy", "show", "all"}, rows: 2, derived: []string{"differs"}},
		{words: []string{"policy", "show", "--tenant", "acme"}, rows: 10, object: true},
		{words: []string{"tenants", "show"}, rows: 2, derived: []string{"own"}},
		{words: []string{"tenants", "show", "acme"}, rows: 5, object: true},
		{words: append([]string{"tenants", "show", "--table", "users"}, store...), rows: 1},
		{words: append([]string{"tenants", "show", "--table", "changes"}, store...), rows: 1},
		{words: append([]string{"graph", "followers", "ann", "--tenant", "acme"}, graph...), rows: 1},
		{words: []string{"identity", "ann", oneil, "--tenant", "acme"}, rows: 2},
	}
}

// oneil is a name that every format must quote.
const oneil = `ann, née "O'Neil"`

func TestEveryCommandPrintsTheSameRowsInEveryFormat(t *testing.T) {
	t.Parallel()
	var mu = make(chan map[string]bool, 1) // the commands that were run
	mu <- map[string]bool{}
	agree := func(k *keyboard, all []printing) {
		for _, p := range all {
			k.formatsAgree(p)
			run := <-mu
			run[p.words[0]], run[strings.Join(p.words[:2], " ")] = true, true
			mu <- run
		}
	}
	t.Run("modes", func(t *testing.T) {
		t.Run("int", func(t *testing.T) {
			t.Parallel()
			k := printer(t)
			k.types(0, nil, "beat", "1", "--kind", "mobile")
			k.types(0, nil, "beat", "2", "--kind", "web")
			k.types(0, nil, "graph", "edges", "1", "2", "3", "--sqlite", filepath.Join(k.Dir, "graph.db"))
			k.sees("first_beat", "history", "1")
			k.sees("first_beat", "history", "2")
			k.types(0, nil, "override", "set", "dnd", "1", "--until", "8h", "--note", "exam")
			k.sees("exam", "override", "get", "1")
			k.sees("disturbed", "get", "1")
			recording := filepath.Join(t.TempDir(), "heartbeats")
			k.types(0, nil, "record", "--out", recording)
			agree(k, intPrinting(k, recording))
			k.explanationsAgree()
			k.streamsInCSV()
			k.refusesParquetOnATerminal()
		})
		t.Run("text", func(t *testing.T) {
			t.Parallel()
			k := printer(t, "--ids", "text")
			k.types(0, nil, "beat", "ann", "--kind", "mobile", "--tenant", "acme")
			k.types(0, nil, "beat", oneil, "--kind", "web", "--tenant", "acme")
			k.types(0, nil, "graph", "edges", "ann", oneil, "--tenant", "acme", "--sqlite", filepath.Join(k.Dir, "graph.db"))
			k.types(0, nil, "tenants", "set", "acme", "users_online=10", `note=a, "b"`)
			k.types(0, nil, "tenants", "set", "*", "reads_per_second_per_process=200")
			k.types(0, nil, "policy", "set", "--tenant", "acme", "away_ttl=1h")
			k.sees("first_beat", "history", "ann", "--tenant", "acme")
			k.sees("first_beat", "history", oneil, "--tenant", "acme")
			k.sees("acme", "tenants", "show", "--table", "users", "--sqlite", filepath.Join(k.Dir, "stillhere.db"))
			agree(k, textPrinting(k))
		})
	})
	elsewhere := []string{"explain", "bench pipeline"} // the last is tested where it is
	run := <-mu
	for _, command := range commandsWithOutput(t) {
		if !run[command] && !slices.Contains(elsewhere, command) {
			t.Errorf("%s has --output and is not among the commands of this test", command)
		}
	}
}

// commandsWithOutput are those to which the shell completes --output.
func commandsWithOutput(t *testing.T) (all []string) {
	t.Helper()
	help := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, "--help")
	help.Wait(time.Minute)
	for _, found := range regexp.MustCompile(`(?m)^  ([a-z-]+(?: [a-z-]+)?)  +[A-Z]`).FindAllStringSubmatch(help.Out.String(), -1) {
		p := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, append([]string{"complete", "--"}, append(strings.Fields(found[1]), "--outpu")...)...)
		if p.Wait(time.Minute) == 0 && strings.HasPrefix(p.Out.String(), "--output\t") {
			all = append(all, found[1])
		}
	}
	if len(all) < 16 {
		t.Fatalf("only %q have --output", all)
	}
	return all
}

func (k *keyboard) explanationsAgree() {
	k.Helper()
	words := []string{"explain", "1", "--at", "now", "--output"}
	document, line := decodeJSON(k.T, k.types(0, nil, append(words, "json")...)), k.types(0, nil, append(words, "jsonl")...)
	at := []string{"as_of"}
	if lines := decodeJSON(k.T, line); strings.Count(line, "\n") != 1 || len(document) != 1 || !reflect.DeepEqual(without(document, at), without(lines, at)) {
		k.Errorf("explain is %v in JSON, and %v on a line", document, lines)
	}
}

// streamsInCSV starts commands without an end: each has one head and rows as they come.
func (k *keyboard) streamsInCSV() {
	k.Helper()
	for _, c := range []struct {
		rows  int
		words []string
	}{
		{2, []string{"get", "1", "2", "--watch"}},
		{8, []string{"status", "--watch", "--table", "partitions"}},
	} {
		p := testkit.Start(k.T, testkit.Binary(k.T, "stillhere"), nil, append(c.words, "--output", "csv", "--url", "http://"+k.Listen)...)
		testkit.Until(k.T, strings.Join(c.words, " ")+" has printed its rows", 30*time.Second, func() bool {
			return strings.Count(p.Out.String(), "\n") > c.rows || !p.Running()
		})
		p.Signal(syscall.SIGINT)
		code := p.Wait(time.Minute)
		if found := readCSV(k.T, p.Out.String()); code != 0 || len(found.rows) < c.rows || strings.Count(p.Out.String(), strings.Join(found.columns, ",")) != 1 {
			k.Errorf("%q: code %d, %s", c.words, code, p.Out.String())
		}
	}
}

func (k *keyboard) refusesParquetOnATerminal() {
	k.Helper()
	for _, words := range [][]string{{"get", "1"}, {"replay"}, {"plan", "--users", "5"}, {"graph", "followers", "1"}, {"status", "--table", "groups"},
		{"topics", "acls", "--role", "api", "--principal", "User:a"}} {
		const want = "stillhere: --output parquet is not for terminals: redirect it to a file"
		if out, code := k.onTerminal("", "", append(words, "--output", "parquet")...); code != 2 || !strings.HasPrefix(out, want) {
			k.Errorf("%q on a terminal: code %d, %q", words, code, out)
		}
	}
}

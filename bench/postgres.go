package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	_ "embed"

	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

//go:embed sql/upsert_day.sql
var upsertDaySQL string

// postgres is a server to measure on.
type postgres struct {
	*pgtest.Cluster
	t    *loadtest.T
	what string
}

// startPostgres takes the server that was named, or starts a private one.
func startPostgres(t *loadtest.T, server string) *postgres {
	if _, err := exec.LookPath("psql"); err != nil {
		t.Check(errNoPsql)
	}
	cluster, err := pgtest.Open(t.Context(), server)
	t.Check(err)
	t.Cleanup(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), loadtest.Timeout)
		defer cancel()
		return errors.Join(cluster.Drop(ctx), cluster.Stop())
	})
	p := &postgres{Cluster: cluster, t: t}
	p.what = p.psql(p.url(), nil, `SELECT format('%s, fsync %s', current_setting('server_version'), current_setting('fsync'))`)
	return p
}

// url is that of a new database.
func (p *postgres) url() string {
	url, err := p.URL(p.t.Context())
	p.t.Check(err)
	return url
}

// tables makes a database with our schema in which all users are known.
func (p *postgres) tables(users int) string {
	config := pgstore.Defaults()
	config.URL, config.DaysAhead = p.url(), sinkRounds
	p.t.Check(pgstore.Migrate(p.t.Context(), config))
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO user_presence SELECT i, '2026-01-01', '2026-01-01', '2026-01-01', 1, 0, 'offline', 'everyone', 0
			FROM generate_series(1, %d) i`, users),
		`VACUUM ANALYZE user_presence`, `CHECKPOINT`,
	} {
		p.psql(config.URL, nil, sql)
	}
	return config.URL
}

// psql runs a statement and returns what psql prints.
func (p *postgres) psql(url string, in []byte, sql string) string {
	command := exec.CommandContext(p.t.Context(), "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql)
	command.Stdin = bytes.NewReader(in)
	var faults bytes.Buffer
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		p.t.Fatalf("running psql: %w: %s", err, faults.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// psqlRound writes the rows of a day as somebody would by hand.
func (p *postgres) psqlRound(url string, from time.Time, log []*schemas.Transition) (copied, upserted time.Duration) {
	table := rowsOf(log)
	begun := time.Now()
	p.psql(url, table, `COPY status_changes (user_id, at, version, device_id, last_seen_at, last_active_at, from_state, to_state, cause,
		visibility, device_kinds, event_id, policy_id) FROM STDIN (FORMAT csv)`)
	copied = time.Since(begun)
	begun = time.Now()
	p.psql(url, nil, fmt.Sprintf(upsertDaySQL, from.Format(time.RFC3339), from.Add(day).Format(time.RFC3339)))
	return copied, time.Since(begun)
}

// rowsOf are transitions as CSV; none of the values needs quotes.
func rowsOf(log []*schemas.Transition) []byte {
	var b bytes.Buffer
	for _, t := range log {
		device := ""
		if t.Device != 0 {
			device = strconv.Itoa(int(t.Device))
		}
		fmt.Fprintf(&b, "%d,%s,%d,%s,%s,%s,%s,%s,%s,%s,%d,%s,%s\n", t.User, t.At, int64(t.Version), device, t.LastSeen, t.LastActive,
			schemas.StateWord(t.From), schemas.StateWord(t.To), schemas.CauseWord(t.Cause), schemas.VisibilityWord(t.Visibility), t.Kinds, t.EventID(), t.Policy)
	}
	return b.Bytes()
}

// same compares what both have written.
func (p *postgres) same(ours, theirs string) {
	const look = `SELECT (SELECT count(*) || ' ' || coalesce(sum(hashtextextended(event_id || to_state || cause || at, 0)), 0) FROM status_changes) || ' ' ||
		(SELECT sum(hashtextextended(format('%s %s %s %s %s', user_id, state, since, last_seen_at, version), 0)) FROM user_presence)`
	if a, b := p.psql(ours, nil, look), p.psql(theirs, nil, look); a != b {
		p.t.Fatalf("the sink's tables (rows, hashes: %s) are not psql's (%s)", a, b)
	}
}

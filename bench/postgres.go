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
	what string
}

// startPostgres takes the server that was named, or starts a private one.
func startPostgres(ctx context.Context, server string) (*postgres, error) {
	if _, err := exec.LookPath("psql"); err != nil {
		return nil, errNoPsql
	}
	cluster, err := pgtest.Open(ctx, server)
	if err != nil {
		return nil, err
	}
	p := &postgres{Cluster: cluster}
	url, err := cluster.URL(ctx)
	if err == nil {
		p.what, err = p.ask(ctx, url, `SELECT format('%s, fsync %s', current_setting('server_version'), current_setting('fsync'))`)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *postgres) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), loadtest.Timeout)
	defer cancel()
	return errors.Join(p.Drop(ctx), p.Stop())
}

// tables makes a database with our schema in which all users are known.
func (p *postgres) tables(ctx context.Context, users int) (url string, err error) {
	if url, err = p.URL(ctx); err != nil {
		return "", err
	}
	config := pgstore.Defaults()
	config.URL, config.DaysAhead = url, sinkRounds
	if err := pgstore.Migrate(ctx, config); err != nil {
		return "", err
	}
	return url, errors.Join(
		pgtest.Exec(ctx, url, fmt.Sprintf(`INSERT INTO user_presence SELECT i, '2026-01-01', '2026-01-01', '2026-01-01', 1, 0, 'offline', 'everyone', 0
			FROM generate_series(1, %d) i`, users)),
		pgtest.Exec(ctx, url, `VACUUM ANALYZE user_presence`), pgtest.Exec(ctx, url, `CHECKPOINT`))
}

// ask is the answer to a query, as psql prints it.
func (p *postgres) ask(ctx context.Context, url, sql string) (string, error) {
	said, err := psql(ctx, url, nil, sql)
	return strings.TrimSpace(said), err
}

func psql(ctx context.Context, url string, in []byte, sql string) (string, error) {
	command := exec.CommandContext(ctx, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql)
	command.Stdin = bytes.NewReader(in)
	var said, complained bytes.Buffer
	command.Stdout, command.Stderr = &said, &complained
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running psql: %w: %s", err, complained.Bytes())
	}
	return said.String(), nil
}

// psqlRound writes the rows of a day as somebody would by hand.
func (p *postgres) psqlRound(ctx context.Context, url string, from time.Time, log []*schemas.Transition) (copied, upserted time.Duration, err error) {
	csv := appendCSV(nil, log)
	begun := time.Now()
	if _, err := psql(ctx, url, csv, `COPY status_changes (user_id, at, version, device_id, last_seen_at, last_active_at, from_state, to_state, cause,
		visibility, device_kinds, event_id, policy_id) FROM STDIN (FORMAT csv)`); err != nil {
		return 0, 0, err
	}
	copied = time.Since(begun)
	begun = time.Now()
	_, err = psql(ctx, url, nil, fmt.Sprintf(upsertDaySQL, from.Format(time.RFC3339), from.Add(day).Format(time.RFC3339)))
	return copied, time.Since(begun), err
}

func appendCSV(b []byte, log []*schemas.Transition) []byte {
	for _, t := range log {
		b = strconv.AppendInt(b, int64(t.User), 10)
		b = append(append(b, ','), t.At.String()...)
		b = strconv.AppendInt(append(b, ','), int64(t.Version), 10)
		b = append(b, ',')
		if t.Device != 0 {
			b = strconv.AppendInt(b, int64(t.Device), 10)
		}
		for _, word := range []string{t.LastSeen.String(), t.LastActive.String(), schemas.StateWord(t.From), schemas.StateWord(t.To),
			schemas.CauseWord(t.Cause), schemas.VisibilityWord(t.Visibility), strconv.Itoa(int(t.Kinds)), t.EventID().String(), t.Policy} {
			b = append(append(b, ','), word...)
		}
		b = append(b, '\n')
	}
	return b
}

// same compares what both have written.
func (p *postgres) same(ctx context.Context, ours, theirs string) error {
	const look = `SELECT (SELECT count(*) || ' ' || coalesce(sum(hashtextextended(event_id || to_state || cause || at, 0)), 0) FROM status_changes) || ' ' ||
		(SELECT sum(hashtextextended(format('%s %s %s %s %s', user_id, state, since, last_seen_at, version), 0)) FROM user_presence)`
	var answers [2]string
	for i, url := range []string{ours, theirs} {
		var err error
		if answers[i], err = p.ask(ctx, url, look); err != nil {
			return err
		}
	}
	if answers[0] != answers[1] {
		return fmt.Errorf("the sink's tables (rows, hashes: %s) are not psql's (%s)", answers[0], answers[1])
	}
	return nil
}

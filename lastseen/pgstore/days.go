package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/internal/tick"
)

var (
	//go:embed sql/make_day.sql
	makeDaySQL string
	//go:embed sql/drop_day.sql
	dropDaySQL string
	//go:embed sql/days.sql
	daysSQL string
	//go:embed sql/unpartitioned_days.sql
	unpartitionedDaysSQL string
)

// maintenanceLock lets one process maintain at a time: "auditlog" in ASCII.
const maintenanceLock int64 = 0x61756469746c6f67

// Maintain creates the partitions of today, of the days ahead and of every day that has rows in
// the default partition, and drops those that ended longer than the audit retention ago. A day is
// a UTC day. It does nothing while another process maintains.
func (s *Store) Maintain(ctx context.Context, now time.Time) error {
	err := s.alone(ctx, maintenanceLock, "taking the lock", func(conn *pgx.Conn) error { return s.maintain(ctx, conn, now) })
	if err != nil {
		return fmt.Errorf("maintaining the audit log: %w", classify(err))
	}
	return nil
}

func (s *Store) maintain(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	existing, err := days(ctx, conn, daysSQL)
	if err != nil {
		return err
	}
	unpartitioned, err := days(ctx, conn, unpartitionedDaysSQL)
	if err != nil {
		return err
	}
	today := now.UTC().Truncate(day)
	wanted := unpartitioned
	for ahead := range s.config.DaysAhead + 1 {
		wanted = append(wanted, today.Add(time.Duration(ahead)*day))
	}
	for _, d := range wanted {
		if slices.ContainsFunc(existing, d.Equal) {
			continue
		}
		// Attaching does not lock out the other days' readers and writers; CREATE TABLE ...
		// PARTITION OF would.
		sql := fmt.Sprintf(makeDaySQL, dayTable(d), d.Format(time.RFC3339), d.Add(day).Format(time.RFC3339))
		if err := inTransaction(ctx, conn, sql); err != nil {
			return fmt.Errorf("making the partition of %s: %w", d.Format(time.DateOnly), err)
		}
		existing = append(existing, d)
	}
	// Everything before this is dropped.
	horizon := now.Add(-s.config.AuditRetention).UTC().Truncate(day)
	for _, d := range existing {
		if !d.Before(horizon) {
			continue
		}
		// Not DETACH CONCURRENTLY, which Postgres refuses beside a default
		// partition; lock_timeout bounds the wait, the next round tries again.
		sql := fmt.Sprintf(dropDaySQL, dayTable(d), d.Add(day).Format(time.RFC3339))
		if err := inTransaction(ctx, conn, sql); err != nil {
			return fmt.Errorf("dropping the partition of %s: %w", d.Format(time.DateOnly), err)
		}
	}
	if _, err := conn.Exec(ctx, `DELETE FROM erased_users WHERE until <= $1`, now); err != nil {
		return fmt.Errorf("forgetting erasures: %w", err)
	}
	// A day for which no partition was ever made is not dropped, but is over as well.
	_, err = conn.Exec(ctx, `UPDATE log_edge SET dropped_before = $1 WHERE dropped_before < $1`, horizon)
	return err
}

// inTransaction runs statements that change the partitions together.
func inTransaction(ctx context.Context, conn *pgx.Conn, sql string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// dayTable is the name of the partition of d; it needs no quoting.
func dayTable(d time.Time) string { return "status_changes_p" + d.Format("20060102") }

func days(ctx context.Context, conn *pgx.Conn, sql string) ([]time.Time, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}

const checkEvery = time.Minute

// Run maintains now and periodically until ctx ends, and at once if the default partition has
// rows. failed gets the error of every failed round; the next round repeats it.
func (s *Store) Run(ctx context.Context, failed func(error)) error {
	var last time.Time
	for range tick.Now(ctx, min(checkEvery, s.config.MaintainEvery)) {
		unpartitioned, err := s.countUnpartitioned(ctx)
		if err == nil && (unpartitioned > 0 || last.IsZero() || time.Since(last) >= s.config.MaintainEvery) {
			last = time.Now()
			err = s.Maintain(ctx, last)
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	return nil
}

// countUnpartitioned counts the rows in the default partition.
func (s *Store) countUnpartitioned(ctx context.Context) (int64, error) {
	var rows int64
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM status_changes_default LIMIT 100000) AS found`).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("looking at the default partition: %w", classify(err))
	}
	s.unpartitioned.Set(float64(rows))
	return rows, nil
}

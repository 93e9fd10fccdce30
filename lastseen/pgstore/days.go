package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	_ "embed"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/make_day.sql
	makeDaySQL string
	//go:embed sql/drop_day.sql
	dropDaySQL string
	//go:embed sql/days.sql
	daysSQL string
	//go:embed sql/homeless_days.sql
	homelessDaysSQL string
)

// maintenanceLock keeps processes from maintaining at once: "auditlog" in ASCII.
const maintenanceLock int64 = 0x61756469746c6f67

// Maintain makes the partitions of today and the days ahead and of every day
// that has rows in the default partition, and drops the days that ended longer
// than the audit retention ago. A day is a UTC day. When another process is at
// it, it does nothing.
func (s *Store) Maintain(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("maintaining the audit log: %w", err)
	}
	defer conn.Release()
	var mine bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, maintenanceLock).Scan(&mine); err != nil {
		return fmt.Errorf("maintaining the audit log: %w", classify(err))
	}
	if !mine {
		return nil
	}
	err = s.maintain(ctx, conn.Conn())
	_, unlockErr := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, maintenanceLock)
	if err := errors.Join(err, unlockErr); err != nil {
		return fmt.Errorf("maintaining the audit log: %w", classify(err))
	}
	return nil
}

func (s *Store) maintain(ctx context.Context, conn *pgx.Conn) error {
	existing, err := days(ctx, conn, daysSQL)
	if err != nil {
		return err
	}
	homeless, err := days(ctx, conn, homelessDaysSQL)
	if err != nil {
		return err
	}
	today := s.now().UTC().Truncate(day)
	wanted := homeless
	for ahead := range s.config.DaysAhead + 1 {
		wanted = append(wanted, today.Add(time.Duration(ahead)*day))
	}
	for _, d := range wanted {
		if slices.ContainsFunc(existing, d.Equal) {
			continue
		}
		if err := makeDay(ctx, conn, d); err != nil {
			return fmt.Errorf("making the partition of %s: %w", d.Format(time.DateOnly), err)
		}
		existing = append(existing, d)
	}
	// Everything before this is dropped.
	horizon := s.now().Add(-s.config.AuditRetention).UTC().Truncate(day)
	for _, d := range existing {
		if !d.Before(horizon) {
			continue
		}
		// Not DETACH CONCURRENTLY, which Postgres refuses beside a default
		// partition; lock_timeout bounds the wait, the next round tries again.
		if err := dropDay(ctx, conn, d); err != nil {
			return fmt.Errorf("dropping the partition of %s: %w", d.Format(time.DateOnly), err)
		}
	}
	// A program of schema 3 drops days and does not say so.
	_, err = conn.Exec(ctx, `UPDATE log_edge SET dropped_before = $1 WHERE dropped_before < $1`, horizon)
	return err
}

// dropDay drops the partition of d, and keeps with it that the log begins later.
func dropDay(ctx context.Context, conn *pgx.Conn, d time.Time) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(dropDaySQL, dayTable(d), d.Add(day).Format(time.RFC3339)), pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// makeDay attaches the partition of d, with the rows of that day that the
// default partition holds. Attaching locks out neither readers nor writers of
// the other days, which CREATE TABLE ... PARTITION OF would.
func makeDay(ctx context.Context, conn *pgx.Conn, d time.Time) error {
	from, to := d.Format(time.RFC3339), d.Add(day).Format(time.RFC3339)
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(makeDaySQL, dayTable(d), from, to), pgx.QueryExecModeSimpleProtocol)
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

// lookEvery is how often the default partition is looked at.
const lookEvery = time.Minute

// Run maintains now and from then on, until ctx ends; failed is told of every
// round that went wrong, which the next one makes good. Rows without a day of their
// own do not wait for the next round.
func (s *Store) Run(ctx context.Context, failed func(error)) error {
	ticker := time.NewTicker(min(lookEvery, s.config.MaintainEvery))
	defer ticker.Stop()
	var last time.Time
	for {
		homeless, err := s.lookForHomeless(ctx)
		if err == nil && (homeless > 0 || last.IsZero() || time.Since(last) >= s.config.MaintainEvery) {
			last = time.Now()
			err = s.Maintain(ctx)
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// lookForHomeless counts the rows in the default partition.
func (s *Store) lookForHomeless(ctx context.Context) (int64, error) {
	var rows int64
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM status_changes_default LIMIT 100000) AS found`).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("looking at the default partition: %w", classify(err))
	}
	s.homeless.Set(float64(rows))
	return rows, nil
}

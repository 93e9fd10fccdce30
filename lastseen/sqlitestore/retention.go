package sqlitestore

import (
	"context"
	"fmt"
	"time"

	_ "embed"

	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/forget.sql
	forgetSQL string
	//go:embed sql/move_edge.sql
	moveEdgeSQL string
)

// dropStep is how many changes one statement drops, so that the sink never waits long.
const dropStep = 1000

// Maintain forgets erasures of which no topic has older changes any more, and drops the changes that are older than the audit retention at now, in small steps.
func (s *Store) Maintain(ctx context.Context, now time.Time) error {
	if _, err := s.Writer.ExecContext(ctx, `DELETE FROM erased_users WHERE until <= ?`, int64(schemas.MillisOf(now))); err != nil {
		return fmt.Errorf("forgetting erasures: %w", classify(err))
	}
	before := schemas.MillisOf(now.Add(-s.config.AuditRetention))
	for {
		dropped, err := s.dropSome(ctx, before)
		if err != nil {
			return fmt.Errorf("dropping changes from before %s: %w", before, classify(err))
		}
		if dropped < dropStep {
			return nil
		}
	}
}

// dropSome drops some of the changes before an instant, and moves the log's beginning in the same
// transaction.
func (s *Store) dropSome(ctx context.Context, before schemas.Millis) (int64, error) {
	tx, err := s.Writer.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	if _, err := tx.ExecContext(ctx, moveEdgeSQL, int64(before)); err != nil {
		return 0, err
	}
	done, err := tx.ExecContext(ctx, forgetSQL, int64(before), dropStep)
	if err != nil {
		return 0, err
	}
	dropped, err := done.RowsAffected()
	if err != nil {
		return 0, err
	}
	return dropped, tx.Commit()
}

// Run maintains now and periodically until ctx ends. failed gets the error of every failed round;
// the next round repeats it.
func (s *Store) Run(ctx context.Context, failed func(error)) error {
	for range tick.Now(ctx, s.config.MaintainEvery) {
		if err := s.Maintain(ctx, time.Now()); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	return nil
}

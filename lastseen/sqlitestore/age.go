package sqlitestore

import (
	"context"
	"fmt"
	"time"

	_ "embed"

	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/forget.sql
var forgetSQL string

// forgetStep is how many changes one statement drops, so that the sink never
// waits long for its turn.
const forgetStep = 1000

// Maintain drops the changes that are older than the audit retention, in small
// steps.
func (s *Store) Maintain(ctx context.Context) error {
	before := schemas.MillisOf(s.now().Add(-s.config.AuditRetention))
	for {
		done, err := s.writer.ExecContext(ctx, forgetSQL, int64(before), forgetStep)
		if err != nil {
			return fmt.Errorf("dropping changes from before %s: %w", before, classify(err))
		}
		dropped, err := done.RowsAffected()
		if err != nil || dropped < forgetStep {
			return err
		}
	}
}

// Run maintains now and from then on, until ctx ends; failed is told of every
// round that went wrong, which the next one makes good.
func (s *Store) Run(ctx context.Context, failed func(error)) error {
	ticker := time.NewTicker(s.config.MaintainEvery)
	defer ticker.Stop()
	for {
		if err := s.Maintain(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

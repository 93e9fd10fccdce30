package pgstore

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestRowsForWhoseDayThereIsNoPartitionAreCountedAndSoonHaveOne(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.config.DaysAhead, s.config.MaintainEvery, s.config.AuditRetention = 1, time.Hour, 50_000*day
	maintain(t, s, "2024-02-28T23:59:59Z", "2024-02-28", "2024-02-29")
	// Midnight passes twice and nobody has made a partition.
	early, late := at(t, 1, "2024-03-01T00:00:00Z"), at(t, 2, "2024-03-01T00:00:01Z")
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 2, Changes: []*schemas.Transition{early, late}}))
	rows, err := s.countUnpartitioned(t.Context())
	var said dto.Metric
	if err != nil || s.unpartitioned.Write(&said) != nil || rows != 2 || said.GetGauge().GetValue() != 2 {
		t.Errorf("%d rows (%v), the metric says %g", rows, err, said.GetGauge().GetValue())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx, func(err error) { t.Error(err) }); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		if slices.Contains(tableDays(t, s), "2024-03-01") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the days are %v", tableDays(t, s))
		}
	}
	cancel()
	running.Wait()
	if rows, err := s.countUnpartitioned(t.Context()); err != nil || rows != 0 {
		t.Errorf("%d rows are left (%v)", rows, err)
	}
	if err := pgtest.Exec(t.Context(), s.config.URL, `DO $$ BEGIN ASSERT (SELECT count(*) FROM status_changes_p20240301) = 2; END $$`); err != nil {
		t.Error(err)
	}
}

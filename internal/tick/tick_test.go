package tick

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurnsComeAfterEachIntervalUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		now, later := 0, 0
		for range Now(ctx, time.Second) {
			now++
		}
		for range Later(ctx, time.Second) {
			later++
		}
		if now != 4 || later != 0 {
			t.Errorf("%d turns within 3.5 s and %d after it, want 4 and none", now, later)
		}
	})
}

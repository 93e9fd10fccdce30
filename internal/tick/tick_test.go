package tick

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurnsComeAfterEachIntervalUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turns func(context.Context, time.Duration) func(func() bool)
		want  int
	}{"now": {Now, 4}, "later": {Later, 3}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			n := 0
			for range c.turns(ctx, time.Second) {
				n++
			}
			for range c.turns(t.Context(), time.Second) {
				break
			}
			if n != c.want {
				t.Errorf("%s: %d turns, want %d", name, n, c.want)
			}
		})
	}
}

package lastseen_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/lastseen"
)

func TestAStoreThatAwaitsALogEpochSaysSoAgainAndAgainUntilItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		awaited := lastseen.NewMetrics(registry).Awaited
		var said strings.Builder
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- awaited.Run(ctx, slog.New(slog.NewTextHandler(&said, nil))) }()
		series := func() int {
			n, err := testutil.GatherAndCount(registry, "stillhere_lastseen_log_epoch_awaited")
			if err != nil {
				t.Error(err)
			}
			return n
		}
		awaited.Set(lastseen.Sink, 1, 4)
		awaited.Set(lastseen.Sink, 2, 6)
		awaited.Set(lastseen.Projector, 1, 4)
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if lines := strings.Count(said.String(), "store=sink min_log_epoch=7 partitions=2"); lines < 2 || series() != 3 {
			t.Errorf("%d lines, %d series: %s", lines, series(), said.String())
		}
		awaited.Delete(lastseen.Sink, 1)
		awaited.Delete(lastseen.Sink, 2)
		awaited.Delete(lastseen.Projector, 1)
		said.Reset()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stop()
		if err := <-ended; err != nil || said.Len() > 0 || series() != 0 {
			t.Errorf("%v, %d series: %s", err, series(), said.String())
		}
	})
}

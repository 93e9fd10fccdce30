package app

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// processTotals are the counters that a process writes of itself, by the names of its metrics.
var processTotals = map[string]string{
	"stillhere_ingest_beats_written_total":        redisview.BeatsTaken,
	"stillhere_detector_beats_total":              redisview.BeatsApplied,
	"stillhere_detector_transitions_total":        redisview.ChangesDecided,
	"stillhere_fanout_published_total":            redisview.ChangesPublished,
	"stillhere_fanout_followers_deliveries_total": redisview.Deliveries,
	"stillhere_lastseen_log_epoch_awaited":        redisview.LogEpochAwaited,
}

// newProcessRecord writes to Redis every few seconds which process this is, for "stillhere status" and
// the console. Nothing else needs it, so errors are not reported: others report that Redis is away.
func newProcessRecord(b *builder) (component, error) {
	options := b.redis
	options.PoolSize = 1
	view, err := redisview.Open(options, b.config.Lastseen.RedisRetention)
	if err != nil {
		return component{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	self := redisview.Process{Role: b.role.Name, Instance: b.config.Instance, Version: b.config.Version, Host: host,
		Started: schemas.MillisOf(time.Now())}
	write := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, redisview.ProcessInterval)
		defer cancel()
		self.At, self.Totals = schemas.MillisOf(time.Now()), TotalsIn(b.registry)
		self.Ready = allReady(ctx, needs(b.checks)) == nil
		_ = view.WriteProcess(ctx, self) // see above
	}
	return component{
		closers: []closer{{"process record", func(ctx context.Context) error {
			_ = view.RemoveProcess(ctx, self) // else it is forgotten a little later
			return view.Close()
		}}},
		services: []service{{"process record", loops, func(ctx context.Context) error {
			for range tick.Now(ctx, redisview.ProcessInterval) {
				write(ctx)
			}
			return nil
		}}},
	}, nil
}

// TotalsIn are the counters of processTotals that a process has, summed over their labels, and of its gauges the greatest
// values.
func TotalsIn(metrics prometheus.Gatherer) map[string]float64 {
	totals := map[string]float64{}
	families, _ := metrics.Gather() // of some that fail the others are there
	for _, f := range families {
		name, wanted := processTotals[f.GetName()]
		if !wanted {
			continue
		}
		for _, m := range f.GetMetric() {
			totals[name] = max(totals[name]+m.GetCounter().GetValue(), m.GetGauge().GetValue())
		}
	}
	return totals
}

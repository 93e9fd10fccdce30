package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// crowdOfThroughput is how many times as many users throughput has as latency: the
// client sends at most one beat a second for each.
const crowdOfThroughput = 20

// throughput measures how many beats a second go from a gateway's calls to handled
// by the detector, as fast as one goroutine can call.
func throughput(ctx context.Context, o *Options, r *Result) (err error) {
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, rig.close()) }()
	d := rig.detector(ctx, everybody(), nil)
	defer func() { err = joined(err, d.stop()) }()
	if err := o.until(ctx, func() string { return "waiting for the detector to get its partitions" }, func() bool { return d.ready(rig) }); err != nil {
		return err
	}
	g, closeGateway, err := rig.gateway(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, closeGateway()) }()
	// A client takes a million devices; the margin is for partitions of unequal size.
	n := min(crowdOfThroughput*o.Users, 1_000_000)
	crowd := newBeating(n, g)
	if err := crowd.everybody(); err != nil {
		return err
	}
	waiting := func() string { return fmt.Sprintf("%.0f of %d users are online", count(d.metrics.Beats), n) }
	if err := o.until(ctx, waiting, func() bool { return count(d.metrics.Beats) >= float64(n) }); err != nil {
		return err
	}
	before, begun, calls := count(d.metrics.Beats), time.Now(), 0
	err = o.measured(func() error {
		for time.Since(begun) < o.length() && ctx.Err() == nil {
			if err := crowd.everybody(); err != nil {
				return err
			}
			calls += n
			o.Progress.Say("  %d calls", calls)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	handled := count(d.metrics.Beats) - before
	r.add("beats from the Go client to handled by the detector", handled/took/1e6, "M beats/s").atLeast(1)
	r.add("calls of the Go client, repeats within a second included", float64(calls)/took/1e6, "M/s")
	r.note(fmt.Sprintf("Throughput with %d users.", n))
	return nil
}

// count reads a counter.
func count(c prometheus.Counter) float64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return m.GetCounter().GetValue()
}

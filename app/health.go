package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// check tells why a part is not ready; nil when it is.
type check struct {
	name  string
	ready func(context.Context) error
	rank  rank
	well  *atomic.Bool // of atFirst: whether it has been ready
}

// rank is what it means for the process that a check fails.
type rank int

const (
	// needed: the role cannot do its own job, so the process is not ready.
	needed rank = iota
	// atFirst: as needed until it has been ready once, as wanted from then on. It is for
	// what has to catch up before a new process takes the place of an old one.
	atFirst
	// wanted: the role does its own job without it. The process is ready, and degraded.
	wanted
)

// rankOf is what a check of this name means for the role.
func (r Role) rankOf(name string) rank {
	switch {
	case slices.Contains(r.needs, name):
		return needed
	case slices.Contains(r.first, name):
		return atFirst
	}
	return wanted
}

// isNeeded tells whether the process is not ready because of a failure of it.
func (c check) isNeeded() bool { return c.rank == needed || c.rank == atFirst && !c.well.Load() }

// health is what was found of a check. needed is as it was before it was asked.
type health struct {
	check
	needed bool
	err    error
}

func (h health) degraded() bool { return h.err != nil && !h.needed }

// readyTimeout bounds all checks of one question together.
const readyTimeout = 5 * time.Second

// runChecks asks the checks at the same time, so that one that hangs does not make the
// others fail.
func runChecks(ctx context.Context, checks []check) []health {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	found := make([]health, len(checks))
	var asking sync.WaitGroup
	for i, c := range checks {
		found[i] = health{check: c, needed: c.isNeeded()}
		asking.Go(func() {
			found[i].err = c.ready(ctx)
			if found[i].err == nil && c.well != nil {
				c.well.Store(true)
			}
		})
	}
	asking.Wait()
	return found
}

// needs are the checks that decide whether the process is ready.
func needs(checks []check) []check {
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !c.isNeeded() })
}

// allReady joins what is not ready.
func allReady(ctx context.Context, checks []check) error {
	var faults []error
	for _, found := range runChecks(ctx, checks) {
		if found.err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", found.name, found.err))
		}
	}
	return errors.Join(faults...)
}

// healthInterval is how often a process looks what it has to do without.
const healthInterval = 5 * time.Second

// watchHealth tells, as a metric and at each change in the log, what the process has to
// do without, until ctx ends.
func watchHealth(ctx context.Context, checks []check, registry prometheus.Registerer, log *slog.Logger) error {
	degraded := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stillhere_degraded",
		Help: "1 while the process is ready, but without what the label names: away, or behind."}, []string{"what"})
	registry.MustRegister(degraded)
	before := map[string]bool{}
	for _, c := range checks {
		if c.rank != needed {
			degraded.WithLabelValues(c.name).Set(0)
		}
	}
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, found := range runChecks(ctx, checks) {
			if found.rank == needed || ctx.Err() != nil {
				continue
			}
			value := 0.0
			switch now := found.degraded(); {
			case now && !before[found.name]:
				log.Warn("degraded: this process goes on without a part", "what", found.name, "error", found.err)
			case !now && before[found.name]:
				log.Info("no longer degraded", "what", found.name)
			}
			if found.degraded() {
				value = 1
			}
			before[found.name] = found.degraded()
			degraded.WithLabelValues(found.name).Set(value)
		}
	}
}

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

	"github.com/stillhere/stillhere/internal/outage"
	"github.com/stillhere/stillhere/internal/tick"
)

// check returns nil if a part is ready, else the reason.
type check struct {
	name   string
	ready  func(context.Context) error
	rank   rank
	passed *atomic.Bool // of atFirst: whether it has passed once
}

// rank says what a failed check means for the process.
type rank int

const (
	// needed: the role cannot do its own job, so the process is not ready.
	needed rank = iota
	// atFirst: like needed until it has passed once, like wanted from then on. It is for
	// parts that have to catch up before a new process replaces an old one.
	atFirst
	// wanted: the role does its own job without it. The process is ready, and degraded.
	wanted
)

// rankOf returns what the check of this name means for the role.
func (r Role) rankOf(name string) rank {
	switch {
	case slices.Contains(r.needs, name):
		return needed
	case slices.Contains(r.first, name):
		return atFirst
	}
	return wanted
}

// isNeeded reports whether its failure makes the process not ready.
func (c check) isNeeded() bool { return c.rank == needed || c.rank == atFirst && !c.passed.Load() }

// health is the result of a check. needed is as it was before the check ran.
type health struct {
	check
	needed bool
	err    error
}

func (h health) degraded() bool { return h.err != nil && !h.needed }

// readyTimeout bounds all checks of one run together.
const readyTimeout = 5 * time.Second

// runChecks runs the checks concurrently, so that one that hangs does not make the others
// fail.
func runChecks(ctx context.Context, checks []check) []health {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	found := make([]health, len(checks))
	var running sync.WaitGroup
	for i, c := range checks {
		found[i] = health{check: c, needed: c.isNeeded()}
		running.Go(func() {
			found[i].err = c.ready(ctx)
			if found[i].err == nil && c.passed != nil {
				c.passed.Store(true)
			}
		})
	}
	running.Wait()
	return found
}

// needs returns the checks that decide whether the process is ready.
func needs(checks []check) []check {
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !c.isNeeded() })
}

// allReady joins the errors of the checks.
func allReady(ctx context.Context, checks []check) error {
	var faults []error
	for _, found := range runChecks(ctx, checks) {
		if found.err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", found.name, found.err))
		}
	}
	return errors.Join(faults...)
}

// healthInterval is the time between two runs of the checks.
const healthInterval = 5 * time.Second

// watchHealth reports the parts that the process works without, as a metric and, at each
// change, in the log, until ctx ends. What outages logs is left out here: that a server is away (servers
// has the checks that ask one, and its name), and what fails because of it.
func watchHealth(ctx context.Context, checks []check, servers map[string]string, outages *outage.Watch, registry prometheus.Registerer, log *slog.Logger) error {
	degraded := newDegraded(registry)
	before, last := map[string]bool{}, map[string]bool{} // as logged, and at the last look
	for _, c := range checks {
		if c.rank != needed {
			degraded.WithLabelValues(c.name).Set(0)
		}
	}
	for range tick.Later(ctx, healthInterval) {
		for _, found := range runChecks(ctx, checks) {
			if ctx.Err() != nil {
				continue
			}
			if found.err != nil {
				outages.Failed(servers[found.name])
			}
			if found.rank == needed {
				continue
			}
			now, value := found.degraded(), 0.0
			if now {
				value = 1
			}
			degraded.WithLabelValues(found.name).Set(value)
			// A part that fails because of an outage fails before the outage is known.
			settled := now == last[found.name]
			last[found.name] = now
			switch {
			case now == before[found.name] || !settled || servers[found.name] != "" || outages.Active():
				continue
			case now:
				log.Warn("degraded: this process works without a part", "what", found.name, "error", found.err)
			default:
				log.Info("no longer degraded", "what", found.name)
			}
			before[found.name] = now
		}
	}
	return nil
}

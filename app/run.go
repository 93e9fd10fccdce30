package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/outage"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/internal/tracing/otlp"
	"github.com/stillhere/stillhere/schemas"
)

// Run runs a role until ctx ends. It calls started, if not nil, once the role is ready.
func Run(ctx context.Context, name string, config Config, log *slog.Logger, started func()) error {
	role, err := roleOf(name)
	if err != nil {
		return err
	}
	if err := config.validate(role); err != nil {
		return err
	}
	log = log.With("role", name, "instance", config.Instance)
	outages := outage.New(log.Handler())
	log = slog.New(outages.Handler())
	endTraces, err := otlp.Start(ctx, otlp.Process{Role: name, Instance: config.Instance, Version: config.Version},
		func(err error) { log.Warn("traces", "error", err) })
	if err != nil {
		return err
	}
	b, err := newBuilder(ctx, role, config, log)
	if err == nil {
		err = b.build(ctx, endTraces)
	}
	if err != nil {
		return errors.Join(err, b.close(ctx))
	}
	b.running = b.config
	all := b.services
	if config.Reload != nil {
		all = append(all, service{"configuration", loops, func(ctx context.Context) error {
			return config.Reload(ctx, b.registry, log, b.reload)
		}})
	}
	all = append(all, service{"outages", loops, func(ctx context.Context) error { return outages.Run(ctx, b.dependencies()) }},
		service{"health", loops, func(ctx context.Context) error {
			return watchHealth(ctx, b.checks, b.serverChecks(), outages, b.registry, log)
		}})
	if started != nil {
		all = append(all, service{"readiness", loops, b.announce(started, role.store)})
	}
	log.Info("starting", b.introduction()...)
	err = runAll(ctx, all)
	log.Info("stopped")
	return errors.Join(err, b.close(ctx))
}

// build adds the components of the role, then the HTTP servers.
func (b *builder) build(ctx context.Context, endTraces func(context.Context) error) error {
	b.closers = append(b.closers, closer{"traces", endTraces})
	if b.role.redis || b.role.Name == "ingest" && b.config.watches() {
		if err := b.add(newRedisClaim(ctx, b.base)); err != nil {
			return err
		}
		if err := b.add(newProcessRecord(b)); err != nil {
			return err
		}
	}
	// A port in use is reported together with what else keeps the role from starting.
	return errors.Join(b.role.build(ctx, b), b.listen(ctx))
}

// A process that does not become ready logs why after firstWarning, and again every
// warningInterval.
const firstWarning, warningInterval = 10 * time.Second, time.Minute

// announce calls started once the role can do its job and, if it answers reads, all checks
// pass and answers are fresh.
func (b *builder) announce(started func(), reads bool) func(context.Context) error {
	return func(ctx context.Context) error {
		warned := time.Now().Add(firstWarning - warningInterval)
		for range tick.Now(ctx, 20*time.Millisecond) {
			why := b.ready(ctx, reads)
			if why == nil {
				started()
				<-ctx.Done()
				return nil
			}
			if time.Since(warned) >= warningInterval && ctx.Err() == nil {
				b.log.Warn("not ready yet", "error", why)
				warned = time.Now()
			}
		}
		return nil
	}
}

func (b *builder) ready(ctx context.Context, reads bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	checks := b.checks
	if !reads {
		checks = needs(checks)
	}
	if err := allReady(ctx, checks); err != nil || !reads {
		return err
	}
	return b.answersAreFresh(ctx)
}

// answersAreFresh is an error while this process marks answers to reads as stale. Only the
// start waits for it, /readyz does not: when the pipeline stands still, old answers are
// better than none.
func (b *builder) answersAreFresh(ctx context.Context) error {
	if b.reader == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var probes []schemas.UserID
	seen := map[int32]bool{}
	for id := schemas.UserID(1); int32(len(seen)) < b.partitions; id++ {
		if p := schemas.PartitionOf(id, b.partitions); !seen[p] {
			seen[p] = true
			probes = append(probes, id)
		}
	}
	for len(probes) > 0 {
		n := min(len(probes), 1000)
		users, err := b.reader.Read(ctx, probes[:n], nil)
		if err != nil {
			return err
		}
		for _, u := range users {
			if u.StaleSince != 0 {
				return fmt.Errorf("the current status of partition %d is not rebuilt yet", schemas.PartitionOf(u.UserID, b.partitions))
			}
		}
		probes = probes[n:]
	}
	return nil
}

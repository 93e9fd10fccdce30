package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/registry"
	"github.com/stillhere/stillhere/internal/tracing"
	"github.com/stillhere/stillhere/schemas"
)

// Run runs a role until ctx ends. started, if not nil, is called when everything
// runs and is ready.
func Run(ctx context.Context, name string, config Config, log *slog.Logger, started func()) error {
	i := slices.IndexFunc(Roles, func(r Role) bool { return r.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no role %q", name)
	}
	role := Roles[i]
	if err := config.validate(role); err != nil {
		return err
	}
	log = log.With("role", name, "instance", config.Instance)
	if config.SchemaRegistry != "" && role.framed {
		heads, err := registry.Heads(ctx, config.SchemaRegistry, config.Kafka.Prefix)
		if err != nil {
			return err
		}
		config.Kafka.Heads = heads
	}
	endTraces, err := tracing.Start(ctx, tracing.Process{Role: name, Instance: config.Instance, Version: config.Version},
		func(err error) { log.Warn("traces", "error", err) })
	if err != nil {
		return err
	}
	b, err := newBuilder(ctx, role, config, log)
	if err != nil {
		return err
	}
	b.closeLater("traces", endTraces)
	if role.redis || role.Name == "ingest" && b.watches() {
		if err := b.claimRedis(ctx); err != nil {
			return errors.Join(err, b.close(ctx))
		}
	}
	if err := errors.Join(role.build(ctx, b), b.listenHTTP(ctx, role.doors)); err != nil {
		return errors.Join(err, b.close(ctx))
	}
	b.service("health", loops, func(ctx context.Context) error { return watchHealth(ctx, b.checks, b.registry, log) })
	if started != nil {
		b.service("readiness", loops, b.announce(started, role.store))
	}
	log.Info("starting", "partitions", b.partitions)
	err = runAll(ctx, b.services)
	log.Info("stopped")
	return errors.Join(err, b.close(ctx))
}

// A process that does not become ready says why after firstTold, and again every
// tellEvery.
const firstTold, tellEvery = 10 * time.Second, time.Minute

// announce calls started once when the role can do its job, and, where reads are a part
// of it, when everything is well and answers are fresh.
func (b *builder) announce(started func(), reads bool) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		told := time.Now().Add(firstTold - tellEvery)
		for {
			why := b.ready(ctx, reads)
			if why == nil {
				started()
				<-ctx.Done()
				return nil
			}
			if time.Since(told) >= tellEvery && ctx.Err() == nil {
				b.log.Warn("not ready yet", "error", why)
				told = time.Now()
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
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

// answersAreFresh tells, where this process answers reads, whether it can without
// saying that the answer may be stale. It is asked before "ready" is said, not by
// /readyz: when the pipeline stands still, old answers are better than none.
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
		users, err := b.reader.Read(ctx, probes[:n])
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

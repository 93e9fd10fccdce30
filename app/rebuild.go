package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/rebuild"
)

// RebuildRedis has the current status in Redis rebuilt by the projectors that run.
// progress is told how many partitions are done.
func RebuildRedis(ctx context.Context, config Config, log *slog.Logger, progress func(done, all int32)) error {
	partitions, err := kafka.CheckTopics(ctx, config.Kafka)
	if err != nil {
		return err
	}
	config.Redis = config.Redis.named(config.Kafka)
	if err := checkRedis(ctx, config.Kafka, config.Redis); err != nil {
		return fmt.Errorf("rebuilding Redis: %w", err)
	}
	b := &builder{config: config, log: log, registry: prometheus.NewRegistry()}
	view, err := b.redisView()
	if err != nil {
		return err
	}
	err = view.Ping(ctx)
	if err == nil {
		err = rebuild.Redis(ctx, view, partitions, progress)
	}
	if err := errors.Join(err, b.close(ctx)); err != nil {
		return fmt.Errorf("rebuilding Redis: %w", err)
	}
	return nil
}

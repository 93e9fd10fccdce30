package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/lastseen/rebuild"
)

// RebuildRedis makes the running projectors rebuild the current status in Redis. progress
// is called with the number of partitions that are done.
func RebuildRedis(ctx context.Context, config Config, log *slog.Logger, progress func(done, all int32)) error {
	partitions, err := admin.CheckTopics(ctx, config.Kafka)
	if err != nil {
		return err
	}
	config.Redis = config.Redis.named(config.Kafka)
	if err := checkRedisClaim(ctx, config.Kafka, config.Redis); err != nil {
		return fmt.Errorf("rebuilding Redis: %w", err)
	}
	view, c, err := newRedisView(base{config: config, log: log, registry: prometheus.NewRegistry()})
	if err != nil {
		return err
	}
	err = view.Ping(ctx)
	if err == nil {
		err = rebuild.Redis(ctx, view, partitions, progress)
	}
	if err := errors.Join(err, c.close(ctx)); err != nil {
		return fmt.Errorf("rebuilding Redis: %w", err)
	}
	return nil
}

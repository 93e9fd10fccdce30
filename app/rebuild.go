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
	cluster, err := config.Kafka.cluster()
	redis, wrong := config.Redis.options(config.Kafka.Prefix)
	if err := errors.Join(err, wrong); err != nil {
		return err
	}
	partitions, err := admin.CheckTopics(ctx, cluster)
	if err != nil {
		return err
	}
	if err := checkRedisClaim(ctx, cluster, redis); err != nil {
		return fmt.Errorf("rebuilding Redis: %w", err)
	}
	b := &builder{base: base{config: config, redis: redis, log: log, registry: prometheus.NewRegistry()}}
	if err := b.useView(ctx); err != nil {
		return err
	}
	err = b.view.Ping(ctx)
	if err == nil {
		err = rebuild.Redis(ctx, b.view, partitions, progress)
	}
	if err := errors.Join(err, b.close(ctx)); err != nil {
		return fmt.Errorf("rebuilding Redis: %w", err)
	}
	return nil
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// WatchTopics looks every so often whether the topics are still as they must be
// and have the partitions over which users are spread, until ctx ends. It changes
// nothing: what is wrong is logged, once, and told by a metric. A running process
// goes on with the partitions that it knows; one that is started is refused.
func WatchTopics(ctx context.Context, cfg kafka.Config, partitions int32, every time.Duration, log *slog.Logger, metrics *kafka.Metrics) {
	told := ""
	for kafka.Pause(ctx, every) {
		fault, known := recheckTopics(ctx, cfg, partitions)
		if !known {
			continue // Kafka does not answer, which others say
		}
		if text := fmt.Sprint(fault); fault != nil && text != told {
			log.Error("ALARM: the topics were changed while this process runs; it continues unchanged, but would refuse to start", "error", fault)
			told = text
		} else if fault == nil && told != "" {
			log.Info("the topics match their specification again")
			told = ""
		}
		metrics.SetTopicMismatch(fault != nil)
	}
}

// recheckTopics tells what is wrong with the topics, and whether that is known.
func recheckTopics(ctx context.Context, cfg kafka.Config, partitions int32) (fault error, known bool) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	admin, cfg, err := openAdmin(cfg)
	if err != nil {
		return nil, false
	}
	defer admin.Close()
	found, err := listTopics(ctx, admin, cfg.Prefix)
	if err != nil {
		return nil, false
	}
	_, fault = compareTopics(found, cfg)
	for _, t := range found {
		if t.exists && t.spec.ByUser && t.partitions != partitions {
			fault = errors.Join(fault, fmt.Errorf("topic %s has %d partitions and had %d when this process was started; partitions cannot be taken away again: "+
				"users have to be moved to topics with another prefix", t.name, t.partitions, partitions))
		}
	}
	return fault, true
}

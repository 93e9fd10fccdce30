package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// WatchTopics compares the topics with their specification, and their partitions with those of the
// start, until ctx ends. It changes nothing: a difference is logged once and shown by a metric. The
// running process continues with the partitions that it knows; a new one would refuse to start.
func WatchTopics(ctx context.Context, cfg kafka.Config, partitions int32, every time.Duration,
	log *slog.Logger, metrics *kafka.Metrics) {
	logged := ""
	for kafka.Pause(ctx, every) {
		fault, known := recheckTopics(ctx, cfg, partitions)
		if !known {
			continue // Kafka does not answer; the loops report that
		}
		if text := fmt.Sprint(fault); fault != nil && text != logged {
			log.Error("ALARM: the topics were changed while this process runs; "+
				"it continues unchanged, but would refuse to start", "error", fault)
			logged = text
		} else if fault == nil && logged != "" {
			log.Info("the topics match their specification again")
			logged = ""
		}
		metrics.SetTopicMismatch(fault != nil)
	}
}

// recheckTopics returns what is wrong with the topics, and whether that is known.
func recheckTopics(ctx context.Context, cfg kafka.Config, partitions int32) (fault error, known bool) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	admin, cfg, found, err := openTopics(ctx, cfg)
	if err != nil {
		return nil, false
	}
	defer admin.Close()
	_, fault = compareTopics(found, cfg)
	for _, t := range found {
		if t.exists && t.spec.ByUser && t.partitions != partitions {
			fault = errors.Join(fault, fmt.Errorf("topic %s has %d partitions and had %d when this process was started; "+
				"partitions cannot be taken away again: "+
				"users have to be moved to topics with another prefix", t.name, t.partitions, partitions))
		}
	}
	return fault, true
}

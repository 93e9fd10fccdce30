// Package kafkatest starts a Kafka in memory with the topics of a pipeline.
package kafkatest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Start runs one until the test ends.
func Start(t *testing.T, users identity.Users, partitions int32) kafka.Config {
	t.Helper()
	config, stop, err := Run(t.Context(), users, partitions)
	must.Do(t, err)
	t.Cleanup(stop)
	return config
}

// Run is Start for examples, which have no test.
func Run(ctx context.Context, users identity.Users, partitions int32) (config kafka.Config, stop func(), err error) {
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return config, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	config = kafka.Config{Brokers: cluster.Addrs(), Users: users}
	if _, err := admin.ApplyTopics(ctx, config, partitions, 1); err != nil {
		cluster.Close()
		return config, nil, err
	}
	return config, cluster.Close, nil
}

// Producer is one that is closed when the test ends.
func Producer(t testing.TB, config kafka.Config) *kafka.Producer {
	t.Helper()
	p := must.Get(kafka.NewProducer(config, slog.New(slog.DiscardHandler), nil))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = p.Close(ctx) // what the test needs it has waited for
	})
	return p
}

// Reader is one that is closed when the test ends.
func Reader(t testing.TB, config kafka.Config) *kafka.Reader {
	t.Helper()
	r := must.Get(kafka.NewReader(config, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(r.Close)
	return r
}

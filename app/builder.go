package app

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
)

// base is what every constructor gets.
type base struct {
	config       Config
	log          *slog.Logger
	registry     *prometheus.Registry
	partitions   int32
	producer     *kafka.Producer
	kafkaMetrics *kafka.Metrics
}

// builder assembles the components of one process.
type builder struct {
	base
	component
	shared
	role Role
	mux  *http.ServeMux
}

// newBuilder checks that Kafka is reachable and that its topics are configured correctly.
// The builder has to be closed, also after an error.
func newBuilder(ctx context.Context, role Role, config Config, log *slog.Logger) (*builder, error) {
	b := &builder{role: role, mux: http.NewServeMux()}
	b.config, b.log, b.registry = config, log, prometheus.NewRegistry()
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.registry.MustRegister(buildInfo(config.Version))
	b.kafkaMetrics = kafka.NewMetrics(b.registry)
	var err error
	if b.partitions, err = admin.CheckTopics(ctx, config.Kafka); err != nil {
		return b, err
	}
	b.kafkaMetrics.SetPartitions(b.partitions)
	if err := b.adoptPolicy(ctx); err != nil {
		return b, err
	}
	b.config.settle(b.partitions)
	if b.producer, err = kafka.NewProducer(b.config.Kafka, log, b.kafkaMetrics); err != nil {
		return b, err
	}
	return b, b.add(component{
		closers: []closer{{"producer", b.producer.Close}},
		checks:  []check{{name: "kafka", ready: b.producer.Ping}},
		services: []service{{"topics", loops, func(ctx context.Context) error {
			admin.WatchTopics(ctx, b.config.Kafka, b.partitions, config.TopicsEvery, log, b.kafkaMetrics)
			return nil
		}}},
	}, nil)
}

// add adds a component to the process, and returns err.
func (b *builder) add(c component, err error) error {
	for i := range c.checks {
		c.checks[i].rank, c.checks[i].passed = b.role.rankOf(c.checks[i].name), new(atomic.Bool)
	}
	for _, register := range c.routes {
		register(b.mux)
	}
	b.component = b.with(c)
	return err
}

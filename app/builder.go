package app

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/registry"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/redis"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// base is what every constructor gets.
type base struct {
	config       Config
	cluster      kafka.Config
	redis        redis.Options
	asked        policy.Change // what the operator asks of the policy
	log          *slog.Logger
	registry     *prometheus.Registry
	partitions   int32
	producer     *kafka.Producer
	kafkaMetrics *kafka.Metrics
	tenants      *tenants.Directory // nil with --ids int
	accounts     *tenants.Accounts  // likewise
}

// builder assembles the components of one process.
type builder struct {
	base
	component
	shared
	role Role
	mux  *http.ServeMux

	restarts map[int32]schemas.Millis // the lossy ones, when the process began

	changing sync.Mutex // held while settings change
	running  Config     // the settings in force, when nothing changes them
}

// newBuilder checks that Kafka is reachable and that its topics are configured correctly.
// The builder has to be closed, also after an error.
func newBuilder(ctx context.Context, role Role, config Config, log *slog.Logger) (*builder, error) {
	b := &builder{role: role, mux: http.NewServeMux()}
	b.config, b.log, b.registry = config, log, prometheus.NewRegistry()
	b.asked = config.asked()
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.registry.MustRegister(buildInfo(config.Version))
	b.kafkaMetrics = kafka.NewMetrics(b.registry)
	var err error
	if b.cluster, err = config.connect(ctx, role); err != nil {
		return b, err
	}
	if config.unsignedRisk(role) {
		log.Warn(unsigned + "; set --frame-keys")
	}
	if role.redis || config.watches() {
		if b.redis, err = config.Redis.options(config.Kafka.Prefix); err != nil {
			return b, err
		}
	}
	if b.partitions, err = admin.CheckTopics(ctx, b.cluster); err != nil {
		return b, err
	}
	b.kafkaMetrics.SetPartitions(b.partitions)
	if err := b.adoptPolicy(ctx); err != nil {
		return b, err
	}
	if err := b.followTenants(ctx); err != nil {
		return b, err
	}
	b.config.settle(b.partitions)
	if b.producer, err = kafka.NewProducer(b.cluster, log, b.kafkaMetrics); err != nil {
		return b, err
	}
	return b, b.add(component{
		closers: []closer{{"producer", b.producer.Close}},
		checks:  []check{{name: "kafka", ready: b.producer.Ping}},
		services: []service{{"topics", loops, func(ctx context.Context) error {
			admin.WatchTopics(ctx, b.cluster, b.partitions, config.TopicsEvery, log, b.kafkaMetrics)
			return nil
		}}, {"frame keys", loops, func(ctx context.Context) error {
			b.cluster.Keys.Follow(ctx, config.TopicsEvery/6, log)
			return nil
		}}},
	}, nil)
}

// connect returns how this process reaches Kafka.
func (c Config) connect(ctx context.Context, role Role) (kafka.Config, error) {
	cluster, err := c.Kafka.cluster()
	if err != nil {
		return cluster, err
	}
	cluster.InstanceName, cluster.Version = c.Instance, c.Version
	// How long a frame may be under way bounds how wrong the ages in it can be.
	cluster.DeliveryTimeout = c.Ingest.AppendTimeout
	if c.SchemaRegistry != "" && role.framed {
		cluster.ValueHeaders, err = registry.ValueHeaders(ctx, c.SchemaRegistry, cluster.Prefix)
	}
	return cluster, err
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

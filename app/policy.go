package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// policyInterval is the time between two look-ups of the policy in force. Sockets learn of a
// new one within another ping interval, so within a minute in all.
const policyInterval = 30 * time.Second

// adoptPolicy makes the policy in force that of this process. A new pipeline has none yet;
// then the settings of the process stand.
func (b *builder) adoptPolicy(ctx context.Context) error {
	all, err := policy.InForce(ctx, b.config.Kafka, detectorGroup)
	switch {
	case kafka.IsUnauthorized(err):
		b.log.Warn("the policy in force is unknown, so this process uses its own settings: allow it to describe the detector's group", "error", err)
	case err != nil:
		return err
	}
	if inForce, ok := policy.Newest(all); ok {
		if err := b.config.PolicyAsked.Refuse(inForce); err != nil {
			return err
		}
		b.config.Policy = inForce
	}
	differs := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stillhere_policy_differs",
		Help: "1 while the flags of this process name another policy than the one in force: it uses the one in force, and would not start again. 1 also while partitions have different policies."})
	b.registry.MustRegister(differs)
	return b.add(component{services: []service{{"policy", loops, func(ctx context.Context) error {
		b.watchPolicy(ctx, differs)
		return nil
	}}}}, nil)
}

// watchPolicy makes this process follow the policy in force. It logs if its flags name another
// one, and if partitions differ at two successive looks: at one, a change may be under way.
func (b *builder) watchPolicy(ctx context.Context, differs prometheus.Gauge) {
	ticker := time.NewTicker(policyInterval)
	defer ticker.Stop()
	current, refused, divided := b.config.Policy.ID(), false, 0
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, policyInterval)
		all, err := policy.InForce(bounded, b.config.Kafka, detectorGroup)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.log.Warn("looking up the policy in force", "error", err)
			continue
		}
		if inForce, ok := policy.Newest(all); ok && inForce.ID() != current {
			refused = !b.followPolicy(inForce, current)
			current = inForce.ID()
		}
		if err := policy.Divided(all); err != nil {
			if divided++; divided == 2 {
				b.log.Warn("partitions go by different policies", "error", err)
			}
		} else {
			if divided > 1 {
				b.log.Info("all partitions go by one policy again", "policy", current)
			}
			divided = 0
		}
		differs.Set(0)
		if refused || divided > 1 {
			differs.Set(1)
		}
	}
}

// followPolicy gives the policy in force to whatever follows it. It reports whether this process
// would start again with its flags.
func (b *builder) followPolicy(inForce schemas.Policy, before string) bool {
	config := b.config
	config.Policy = inForce
	config.settle(b.partitions)
	for _, apply := range b.onPolicy {
		apply(config)
	}
	b.log.Info("another policy came into force", "policy", inForce.ID(), "before", before)
	if err := b.config.PolicyAsked.Refuse(inForce); err != nil {
		b.log.Warn("this process would not start again", "error", err)
		return false
	}
	return true
}

// changePolicy brings what is asked for into force in a pipeline that has one owner.
func changePolicy(ctx context.Context, config Config, log *slog.Logger) (err error) {
	all, err := policy.InForce(ctx, config.Kafka, detectorGroup)
	if err != nil {
		return err
	}
	inForce, ok := policy.Newest(all)
	if !ok || config.PolicyAsked.Refuse(inForce) == nil {
		return nil
	}
	asked := config.PolicyAsked.To(inForce)
	if err := SetPolicy(ctx, config.Kafka, asked, log); err != nil {
		return err
	}
	log.Info("the policy is changed", "policy", asked.ID(), "before", inForce.ID())
	return nil
}

// SetPolicy writes the policy to every partition of the heartbeats. Detectors bring it
// into force there as soon as they come to it.
func SetPolicy(ctx context.Context, cluster kafka.Config, p schemas.Policy, log *slog.Logger) (err error) {
	producer, err := kafka.NewProducer(cluster, log, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close(context.WithoutCancel(ctx))) }()
	if err := policy.Set(ctx, producer, p); err != nil {
		return fmt.Errorf("changing the policy: %w", err)
	}
	return nil
}

// PolicyInForce is the policy in force by partition; see policy.InForce.
func PolicyInForce(ctx context.Context, cluster kafka.Config) ([]policy.Partition, error) {
	return policy.InForce(ctx, cluster, detectorGroup)
}

// AwaitPolicy waits until the policy with the id is in force everywhere; see policy.Await.
func AwaitPolicy(ctx context.Context, cluster kafka.Config, id string, partitions int32, progress func(done, all int32)) error {
	return policy.Await(ctx, cluster, detectorGroup, id, partitions, progress)
}

// DetectorCheckpoints are the checkpoints that the detector's group has committed, by
// partition.
func DetectorCheckpoints(ctx context.Context, cluster kafka.Config) (map[int32]*schemas.Checkpoint, error) {
	return policy.Checkpoints(ctx, cluster, detectorGroup)
}

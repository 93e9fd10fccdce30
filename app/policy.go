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

// policyEvery is how often a process looks which policy is in force. Sockets are told within
// another ping interval, together within a minute.
const policyEvery = 30 * time.Second

// takePolicy makes the policy in force that of this process. Where there is none, in a new
// pipeline, the settings of the process stand.
func (b *builder) takePolicy(ctx context.Context) error {
	all, err := policy.InForce(ctx, b.config.Kafka, detectorGroup)
	switch {
	case kafka.Refused(err):
		b.log.Warn("the policy in force is not known: the settings of this process stand", "error", err)
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
		Help: "1 while the flags of this process ask for another policy than the one in force: it works with that, and would not start again. 0 otherwise."})
	b.registry.MustRegister(differs)
	b.service("policy", loops, func(ctx context.Context) error {
		b.watchPolicy(ctx, differs)
		return nil
	})
	return nil
}

// onPolicy makes f be called when another policy comes into force, with the settings that
// follow from it. Calls come one after the other, while services run.
func (b *builder) onPolicy(f func(Config)) { b.followers = append(b.followers, f) }

// watchPolicy makes this process follow the policy in force, and tells when its flags ask for
// another.
func (b *builder) watchPolicy(ctx context.Context, differs prometheus.Gauge) {
	ticker := time.NewTicker(policyEvery)
	defer ticker.Stop()
	for own := b.config.Policy.ID(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		look, cancel := context.WithTimeout(ctx, policyEvery)
		all, err := policy.InForce(look, b.config.Kafka, detectorGroup)
		cancel()
		inForce, ok := policy.Newest(all)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			b.log.Warn("looking which policy is in force", "error", err)
			continue
		case !ok || inForce.ID() == own:
			continue
		}
		config := b.config
		config.Policy = inForce
		config.settle(b.partitions)
		for _, follow := range b.followers {
			follow(config)
		}
		b.log.Info("another policy came into force", "policy", inForce.ID(), "before", own)
		own = inForce.ID()
		differs.Set(0)
		if err := b.config.PolicyAsked.Refuse(inForce); err != nil {
			differs.Set(1)
			b.log.Warn("this process would not start again", "error", err)
		}
	}
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

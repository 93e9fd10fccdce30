package app

import (
	"context"
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
	all, err := policy.InForce(ctx, b.cluster)
	switch {
	case kafka.IsUnauthorized(err):
		b.log.Warn("the policy in force is unknown, so this process uses its own settings: allow it to describe the detector's group", "error", err)
	case err != nil:
		return err
	}
	if inForce, ok := policy.Newest(all); ok {
		if err := b.asked.Refuse(inForce); err != nil {
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
		all, err := policy.InForce(bounded, b.cluster)
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
	if err := b.asked.Refuse(inForce); err != nil {
		b.log.Warn("this process would not start again", "error", err)
		return false
	}
	return true
}

// asked returns what the operator asks of the policy.
func (c Config) asked() policy.Change { return policy.Change{Policy: c.Policy, Names: c.PolicyAsked} }

// changePolicy brings what is asked for into force in a pipeline that has one owner.
func changePolicy(ctx context.Context, cluster kafka.Config, asked policy.Change, log *slog.Logger) error {
	all, err := policy.InForce(ctx, cluster)
	if err != nil {
		return err
	}
	inForce, ok := policy.Newest(all)
	if !ok || asked.Refuse(inForce) == nil {
		return nil
	}
	next := asked.To(inForce)
	if err := policy.Set(ctx, cluster, next, log); err != nil {
		return err
	}
	log.Info("the policy is changed", "policy", next.ID(), "before", inForce.ID())
	return nil
}

package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// adoptPolicy makes the policy in force that of this process. A new pipeline has none yet, and a
// process without the right to read it does not know it; then the settings of the process stand
// until it does. Every hello has the heartbeat interval of this policy.
func (b *builder) adoptPolicy(ctx context.Context) error {
	all, err := policy.InForce(ctx, b.cluster)
	switch {
	case kafka.IsUnauthorized(err):
		b.log.Warn("the policy in force is unknown, so this process uses its own settings: allow it to describe the detector's group", "error", err)
	case err != nil:
		return err
	}
	if n, err := b.refused(all); n > 0 && n == len(all) {
		return err
	}
	b.restarts = policy.LossyRestarts(all)
	w := &policyWatch{builder: b}
	inForce, ok := policy.Newest(all)
	if !ok && err == nil {
		b.log.Info("no policy is in force yet, so this process uses its own settings; a detector that commits brings one into force",
			"policy", b.config.Policy.ID())
	}
	if ok {
		if err := b.asked.Refuse(inForce); err != nil {
			return err
		}
		b.config.Policy = inForce
	}
	w.current = b.config.Policy.ID()
	w.differs = newPolicyDiffers(b.registry)
	return b.add(component{services: []service{{"policy", loops, func(ctx context.Context) error {
		policy.Watch(ctx, b.cluster, ok, w.found)
		return nil
	}}}}, nil)
}

// policyWatch makes a process follow the policy in force. It logs if the process's flags name another
// one, and if partitions differ at two successive looks: at one, a change may be under way.
type policyWatch struct {
	*builder
	differs prometheus.Gauge

	// Owned by the goroutine that looks.
	current string // the id of the policy that this process uses
	refused bool   // the process would not start again with its flags
	lost    bool   // detectors refuse what the process writes
	divided int    // at how many successive looks the partitions differed
}

// found takes what a look has found.
func (w *policyWatch) found(all []policy.Partition, err error) {
	if err != nil {
		w.log.Warn("looking up the policy in force", "error", err)
		return
	}
	for _, restarted := range w.onRestart {
		restarted(policy.LossyRestarts(all))
	}
	if inForce, ok := policy.Newest(all); ok && inForce.ID() != w.current {
		w.refused = !w.followPolicy(inForce, w.current)
		w.current = inForce.ID()
	}
	_, err = w.builder.refused(all)
	if err != nil && !w.lost {
		w.log.Error("detectors refuse the heartbeats of this process: it acknowledges them, and nobody comes online by them", "error", err)
	}
	if err == nil && w.lost {
		w.log.Info("detectors take the heartbeats of this process again")
	}
	w.lost = err != nil
	if err := policy.Divided(all); err != nil {
		if w.divided++; w.divided == 2 {
			w.log.Warn("partitions go by different policies", "error", err)
		}
	} else {
		if w.divided > 1 {
			w.log.Info("all partitions go by one policy again", "policy", w.current)
		}
		w.divided = 0
	}
	w.differs.Set(0)
	if w.refused || w.lost || w.divided > 1 {
		w.differs.Set(1)
	}
}

// refused says in how many partitions detectors refuse the heartbeats of this process, and why. A commit may be old, as
// that of a partition that is parked: only if all refuse, the process does not start. Roles with a detector of their
// own are not asked, since that may have committed under keys that were replaced since.
func (b *builder) refused(all []policy.Partition) (partitions int, err error) {
	if b.role.Name != "ingest" {
		return 0, nil
	}
	return policy.Refused(all, b.cluster.Keys)
}

// followPolicy gives the policy in force to whatever follows it. It reports whether this process
// would start again with its flags.
func (b *builder) followPolicy(inForce schemas.Policy, before string) bool {
	b.change(func(c *Config) { c.Policy = inForce })
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

package detector

import (
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// PolicyLog knows which policies the topic policies has, for all partitions of a process. Safe for concurrent use.
type PolicyLog interface {
	// Lacks reports whether the policy with the id must be written. Who hears so writes it before the transaction
	// ends; all who ask later are answered false, until Restored.
	Lacks(id string) bool
	// Restored says that what was written and not acknowledged may be lost.
	Restored()
}

// keepPolicies writes the policies by which users are judged from now on, and which the topic policies lacks, so
// that no transition with the id of a policy is committed before the policy is kept.
func (p *Partition) keepPolicies(out *stream.Outbox) {
	p.newPolicies = false
	if p.config.Policies == nil {
		return
	}
	for _, r := range p.machine.Policies() {
		if p.config.Policies.Lacks(r.Policy.ID()) {
			out.Forwards = append(out.Forwards, schemas.Outgoing{Topic: schemas.Policies, Key: r.Key(), Value: r.Encode()})
		}
	}
}

func (p *Partition) logPolicy() {
	in := p.machine.Policy()
	p.log.Info("policy in force", "policy", in.Policy.ID(), "since_offset", in.Offset)
}

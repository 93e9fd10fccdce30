package detector

import (
	"strconv"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// errTooManyTenants is why the policy of one more tenant goes to the dead-letter topic.
var errTooManyTenants = &schemas.FieldError{Code: "too_many_tenant_policies", Field: "tenant_policy.tenant",
	Reason: "would be the tenant number " + strconv.Itoa(schemas.MaxTenantPolicies+1) +
		" with a policy of its own; tenants whose policies were removed count"}

// judgeTenant brings the users of a tenant whose first policy the record has brought, and whose names are known,
// under it.
func (p *Partition) judgeTenant() {
	t := p.out.Tenant
	if p.out.FirstPolicy {
		p.names.each(func(tenant string) bool { return tenant == t.Tenant }, p.machine.Judge)
	}
	id := "that of the pipeline"
	if t.Policy != nil {
		id = p.machine.Policy().Policy.For(t.Policy).ID()
	}
	p.log.Info("policy of a tenant in force", "tenant", t.Tenant, "policy", id)
}

// keepRules writes the rules of the partition if the record has changed them, or if it is the first after a lossy
// restart.
func (p *Partition) keepRules(out *stream.Outbox) {
	if epoch := p.machine.LogEpoch(); epoch != p.keptEpoch || p.frame.Policy != nil || p.out.Tenant != nil {
		p.keptEpoch = epoch
		rules := p.machine.Rules()
		out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Statuses, Partition: p.id, Key: rules.Key(), Value: rules.Encode()})
	}
}

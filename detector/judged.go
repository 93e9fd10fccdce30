package detector

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// errTooManyTenants is why the policy of one more tenant goes to the dead-letter topic.
var errTooManyTenants = &schemas.FieldError{Code: "too_many_tenant_policies", Field: "tenant_policy.tenant",
	Reason: "would be the tenant number " + strconv.Itoa(schemas.MaxTenantPolicies+1) +
		" with a policy of its own; tenants whose policies were removed count"}

// publishTenant stores the policies of the tenant whose policy the record has changed. Its users whose
// names are known come under its first policy.
func (p *Partition) publishTenant(out *stream.Outbox) {
	t := p.out.Tenant
	out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Statuses, Partition: p.id, Key: t.Key(), Value: t.Encode()})
	newest := t.Policies[len(t.Policies)-1]
	if t.Born == newest.Version {
		for _, user := range p.names.ofTenant(t.Tenant) {
			p.machine.Judge(user, t.Tenant)
		}
	}
	id := "that of the pipeline"
	if newest.Policy != nil {
		id = p.machine.Policy().Policy.For(newest.Policy).ID()
	}
	p.log.Info("policy of a tenant in force", "tenant", t.Tenant, "policy", id)
}

// adoptTenants reads the policies of tenants. It returns the greatest log epoch of the policies.
func (p *Partition) adoptTenants(ctx context.Context, bounds *bounds, read stream.ReadFunc) (epoch uint32, err error) {
	if p.names == nil || bounds.checkpoint != nil && len(bounds.checkpoint.Tenants) == 0 {
		return 0, nil
	}
	policies := map[string]*schemas.TenantPolicies{}
	err = read(ctx, schemas.Statuses, -1, -1, func(r *schemas.Record) error {
		tenant, ok := schemas.TenantOfPolicyKey(r.Key)
		if !ok {
			return nil
		}
		t, err := bounds.policies(tenant, r)
		if err != nil {
			p.rejectStored(r, err)
			p.log.Error("ALARM: a record with the policies of a tenant cannot be used: its users are judged by the record before it that can, else by the pipeline's policy",
				"tenant", tenant, "offset", r.Offset, "error", err)
			return nil
		}
		policies[tenant] = t
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the policies of tenants: %w", err)
	}
	for _, tenant := range slices.Sorted(maps.Keys(policies)) {
		t := policies[tenant]
		p.machine.AdoptPolicies(t)
		epoch = max(epoch, t.Policies[len(t.Policies)-1].Version.LogEpoch())
	}
	return epoch, nil
}

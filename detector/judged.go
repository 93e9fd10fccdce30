package detector

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// errTooManyTenants is why the policy of one more tenant goes to the dead-letter topic.
var errTooManyTenants = &schemas.FieldError{Code: "too_many_tenant_policies", Field: "tenant_policy.tenant",
	Reason: "would be the tenant number " + strconv.Itoa(schemas.MaxTenantPolicies+1) +
		" with a policy of its own; tenants whose policies were removed count"}

// nameStatus puts the user's name into a status. Unless the record is done, a user whom it brings under
// the policy of the tenant has none: a restart would take the name for known before the record.
func (p *Partition) nameStatus(s *schemas.Status, done bool) {
	if !done && s.JudgedFrom == 0 && !s.Nameless() {
		if tenant, _ := p.names.tenantOf(s.User); p.machine.JudgedFromBirth(tenant, s.Version) {
			return
		}
	}
	p.names.name(s, p.machine.LogTime())
}

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

// judged is what the newest status of a user with a name says.
type judged struct {
	tenant string
	from   schemas.Version
	at     schemas.Millis
	named  bool
	newest schemas.Version
	lapsed schemas.Lapsed
}

// adoptTenants reads the policies of tenants, and, if heartbeats are to be re-read, who was judged by
// them. It returns the greatest log epoch of the policies.
func (p *Partition) adoptTenants(ctx context.Context, plan *plan, bounds *bounds, read stream.ReadFunc) (epoch uint32, err error) {
	if p.names == nil || plan.checkpoint != nil && len(plan.checkpoint.Tenants) == 0 {
		return 0, nil
	}
	policies, users := map[string]*schemas.TenantPolicies{}, map[schemas.UserID]judged{}
	has := func(tenant string) bool {
		return slices.ContainsFunc(plan.checkpoint.Tenants, func(t schemas.TenantMark) bool { return t.Of(tenant) })
	}
	err = read(ctx, schemas.Statuses, -1, -1, func(r *schemas.Record) error {
		if tenant, ok := schemas.TenantOfPolicyKey(r.Key); ok {
			t, err := bounds.policies(tenant, r)
			if err != nil {
				p.rejectStored(r, err)
				p.log.Error("ALARM: a record with the policies of a tenant cannot be used: its users are judged by the record before it that can, else by the pipeline's policy",
					"tenant", tenant, "offset", r.Offset, "error", err)
				return nil
			}
			policies[tenant] = t
			return nil
		}
		if plan.lossy {
			return nil
		}
		user, s, err := bounds.status(r)
		if err != nil || p.checkStatusName(s) != nil {
			return nil // adopt reports it
		}
		delete(users, user)
		if s == nil {
			return nil
		}
		var j judged
		if s.Name != (schemas.Name{}) && s.NamedUntil == 0 && has(s.Name.Tenant) {
			j = judged{tenant: s.Name.Tenant, from: s.JudgedFrom, at: s.JudgedAt, named: true, newest: s.Version}
		}
		if j.lapsed = s.Lapsed; j != (judged{}) {
			users[user] = j
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the policies of tenants: %w", err)
	}
	for _, t := range policies {
		p.machine.AdoptPolicies(t)
		epoch = max(epoch, t.Policies[len(t.Policies)-1].Version.LogEpoch())
	}
	for user, j := range users {
		if j.named && (j.from != 0 || p.machine.JudgedFromBirth(j.tenant, j.newest)) {
			p.machine.AdoptJudged(user, j.tenant, j.from, j.at)
		}
		if j.lapsed.Until != 0 {
			p.machine.AdoptLapsed(user, j.lapsed)
		}
	}
	return epoch, nil
}

package oracle

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// tenant is a tenant that has or had a policy of its own.
type tenant struct {
	policy *schemas.Policy // nil: the pipeline's
	from   schemas.Millis  // log time from which it is in force
}

// rules are the settings that concern one user, and from when on they are in force for the user.
type rules struct {
	present                      millis // online_ttl + offline_debounce
	away, idleAfter, byeDebounce millis
	policy                       schemas.Policy
	from                         schemas.Millis
}

func rulesOf(p schemas.Policy, from schemas.Millis) rules {
	ms := func(d time.Duration) millis { return millis(d.Milliseconds()) }
	return rules{present: ms(p.OnlineTTL + p.OfflineDebounce), away: ms(p.AwayTTL), idleAfter: ms(p.IdleAfter),
		byeDebounce: ms(p.ByeDebounce), policy: p, from: from}
}

// of are the rules by which u is judged.
func (w *world) of(u *user) rules {
	name, ok := w.judged[u.id]
	if !ok {
		return rulesOf(w.policy, w.policyFrom)
	}
	t := w.tenants[name]
	return rulesOf(w.policy.For(t.policy), max(w.policyFrom, t.from, w.judgedAt[u.id]))
}

// judgeNamed brings the users whom the record names, and whose tenants have policies of their own, under these.
func (w *world) judgeNamed(named []schemas.UserID) {
	for _, id := range named {
		name := w.names[id].Tenant
		if _, already := w.judged[id]; already || w.tenants[name] == nil {
			continue
		}
		w.judged[id], w.judgedAt[id] = name, w.now
	}
}

// applyTenantPolicy brings a policy of a tenant into force.
func (w *world) applyTenantPolicy(f *schemas.TenantPolicy) {
	known := w.tenants[f.Tenant]
	switch {
	case known == nil && f.Policy == nil:
	case known == nil:
		w.tenants[f.Tenant] = &tenant{f.Policy, w.now}
		w.born = append(w.born, f.Tenant)
	case (f.Policy == nil) == (known.policy == nil) && w.policy.For(f.Policy) == w.policy.For(known.policy):
	default:
		known.policy, known.from = f.Policy, w.now
	}
}

// judgeBorn brings the users whose names are known under the first policy of their tenant.
func (w *world) judgeBorn() {
	for _, name := range w.born {
		for id, known := range w.names {
			if known.Tenant == name {
				w.judged[id] = name
			}
		}
	}
	w.born = nil
}

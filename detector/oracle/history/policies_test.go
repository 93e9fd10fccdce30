package history

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// withPolicies is a history in which one policy follows another within the time that a restart re-reads.
func withPolicies(h *History, seed uint64) *History {
	return withPoliciesOf(h, seed, func(s *source) Record {
		p := settings(s)
		return Record{Policy: &p}
	})
}

func withPoliciesOf(h *History, seed uint64, policy func(*source) Record) *History {
	s := &source{bytes: ofSeed(seed+2_000_000, 1000+64*len(h.Records))}
	every := one(s, 3, 2, 20)
	more := *h
	more.Records = nil
	for _, r := range h.Records {
		if s.chance(every) {
			p := policy(s)
			p.After, r.After = r.After, 0
			more.Records = append(more.Records, p)
		}
		more.Records = append(more.Records, r)
	}
	return &more
}

func TestMachineKilledAnywhereAmongManyPoliciesDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 160) {
		compareOn(t, killed(seed).Run, withPolicies(fromSeed(seed), seed))
	}
}

func TestMachineThatLosesItsLogAmongManyPoliciesDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 128) {
		compareOn(t, killed(seed).Run, withLosses(withPolicies(fromSeed(seed), seed), seed))
	}
}

func TestMachineKilledAnywhereAmongManyPoliciesOfTenantsDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 128) {
		h := withTenants(fromSeed(seed), seed)
		compareOn(t, killed(seed).Run, withPoliciesOf(h, seed, func(s *source) Record {
			p := settings(s)
			return Record{Tenant: &schemas.TenantPolicy{Tenant: tenants[1], Policy: &p}}
		}))
	}
}

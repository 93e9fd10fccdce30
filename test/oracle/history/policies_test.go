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
	return interspersed(h, s, one(s, 3, 2, 20), func() Record { return policy(s) })
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

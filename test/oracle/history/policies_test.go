package history

import "github.com/stillhere/stillhere/schemas"

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

func withManyPoliciesOfTenants(h *History, seed uint64) *History {
	return withPoliciesOf(withTenants(h, seed), seed, func(s *source) Record {
		p := settings(s)
		return Record{Tenant: &schemas.TenantPolicy{Tenant: tenants[1], Policy: &p}}
	})
}

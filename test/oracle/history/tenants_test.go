package history

import "github.com/stillhere/stillhere/schemas"

// withTenants is h with users who have names, and tenants whose policies come, change and go.
func withTenants(h *History, seed uint64) *History {
	h, _ = withNames(h, seed)
	s := &source{bytes: ofSeed(seed+1_000_000, 1000+64*len(h.Records))}
	return interspersed(h, s, one(s, 30, 8, 100), func() Record {
		tenant := schemas.TenantPolicy{Tenant: one(s, tenants...)}
		if !s.chance(4) {
			p := settings(s)
			tenant.Policy = &p
		}
		return Record{Tenant: &tenant}
	})
}

// interspersed is h with a record of next before one of every so many records.
func interspersed(h *History, s *source, every int, next func() Record) *History {
	more := *h
	more.Records = nil
	for _, r := range h.Records {
		if s.chance(every) {
			between := next()
			between.After, r.After = r.After, 0
			more.Records = append(more.Records, between)
		}
		more.Records = append(more.Records, r)
	}
	return &more
}

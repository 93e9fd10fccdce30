package detector

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// tenants counts the present users of one partition by tenant, in pipelines with --ids text. A user
// counts for the tenant of the name in the table of names; without a name, for none. Users who
// change, names that come and names that go each change the counts by one user, so they are exact
// after every record. Memory grows with the tenants that have present users here.
type tenants struct {
	counts map[string]*schemas.Counts
}

// countTenants counts the users of a partition that was restored, and keeps the counts from then on.
func (p *Partition) countTenants() {
	p.tenants = &tenants{counts: map[string]*schemas.Counts{}}
	for user, as := range p.machine.AllCounted {
		if tenant, known := p.names.tenantOf(user); known {
			p.tenants.add(tenant, as, 1)
		}
	}
	p.names.forgets = func(user schemas.UserID, tenant string) {
		p.tenants.add(tenant, p.machine.CountedAs(user), -1)
		p.machine.Unjudge(user)
	}
	p.machine.Recounts = true
}

// recount takes users who count as something else.
func (t *tenants) recount(changed []liveness.Recount, names *names) {
	for _, c := range changed {
		if tenant, known := names.tenantOf(c.User); known {
			t.add(tenant, c.After, 1)
			t.add(tenant, c.Before, -1)
		}
	}
}

// add adds n users who count as given to a tenant's.
func (t *tenants) add(tenant string, as liveness.Counted, n int64) {
	if as == (liveness.Counted{}) {
		return
	}
	c := t.counts[tenant]
	if c == nil {
		c = new(schemas.Counts)
		t.counts[strings.Clone(tenant)] = c // names alias large arrays
	}
	if as.AddTo(c, c, n); *c == (schemas.Counts{}) {
		delete(t.counts, tenant)
	}
}

// largest are the counts of the limit largest tenants, and the sum of the others; nil if there are
// none. Of tenants with as many users the first by name counts as larger.
func (t *tenants) largest(limit int) (list []schemas.TenantCounts, others *schemas.Counts) {
	if len(t.counts) == 0 {
		return nil, nil
	}
	list = make([]schemas.TenantCounts, 0, len(t.counts))
	for _, tenant := range slices.Sorted(maps.Keys(t.counts)) {
		list = append(list, schemas.TenantCounts{Tenant: tenant, Counts: *t.counts[tenant]})
	}
	if len(list) <= limit {
		return list, nil
	}
	slices.SortStableFunc(list, func(a, b schemas.TenantCounts) int { return cmp.Compare(b.Present(), a.Present()) })
	others = new(schemas.Counts)
	for i := range list[limit:] {
		others.Add(&list[limit+i].Counts)
	}
	return list[:limit], others
}

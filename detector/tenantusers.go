package detector

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/pertenant"
	"github.com/stillhere/stillhere/schemas"
)

// tenantUsers is the gauge of present users by tenant, of the partitions of this process: of the
// largest tenants, and of all others together.
type tenantUsers struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	parts map[int32]tenantsOfPart
}

// tenantsOfPart is what a partition published. It is never changed.
type tenantsOfPart struct {
	list   []schemas.TenantCounts
	others *schemas.Counts
}

func newTenantUsers(r prometheus.Registerer) *tenantUsers {
	g := &tenantUsers{parts: map[int32]tenantsOfPart{}, desc: prometheus.NewDesc("stillhere_tenant_users",
		"With --ids text: visible users who are online or away, in the partitions of this process, by tenant; of the 100 largest tenants, and of all others as tenant=\"*\". Users whose name is not known yet are of none.",
		[]string{"tenant", "state"}, nil)}
	r.MustRegister(g)
	return g
}

// show replaces a partition's part.
func (g *tenantUsers) show(partition int32, list []schemas.TenantCounts, others *schemas.Counts) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts[partition] = tenantsOfPart{list, others}
}

// hide removes a partition's part.
func (g *tenantUsers) hide(partition int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.parts, partition)
}

// Describe implements prometheus.Collector.
func (g *tenantUsers) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g *tenantUsers) Collect(to chan<- prometheus.Metric) {
	for _, c := range g.sums() {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(c.Online), c.Tenant, schemas.StateWord(schemas.Online))
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(c.Away), c.Tenant, schemas.StateWord(schemas.Away))
	}
}

// sums are the largest tenants, and the others as one more if there are any.
func (g *tenantUsers) sums() []schemas.TenantCounts {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, index := []schemas.TenantCounts{}, map[string]int{}
	others := schemas.TenantCounts{Tenant: pertenant.Others}
	for _, part := range g.parts {
		for i := range part.list {
			c := &part.list[i]
			at, known := index[c.Tenant]
			if !known {
				at = len(all)
				index[c.Tenant], all = at, append(all, schemas.TenantCounts{Tenant: c.Tenant})
			}
			all[at].Add(&c.Counts)
		}
		if part.others != nil {
			others.Add(part.others)
		}
	}
	slices.SortFunc(all, func(a, b schemas.TenantCounts) int {
		return cmp.Or(cmp.Compare(b.Present(), a.Present()), cmp.Compare(a.Tenant, b.Tenant))
	})
	for len(all) > pertenant.Series {
		others.Add(&all[len(all)-1].Counts)
		all = all[:len(all)-1]
	}
	if others.Present() > 0 {
		all = append(all, others)
	}
	return all
}

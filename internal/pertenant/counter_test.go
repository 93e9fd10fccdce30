package pertenant

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTheLargestTenantsHaveSeriesAndNoSeriesGoesBack(t *testing.T) {
	t.Parallel()
	c := NewCounterVec(prometheus.CounterOpts{Name: "events_total", Help: "Events."}, []string{"tenant"})
	before := map[string]float64{}
	check := func() {
		t.Helper()
		totals := c.scrape()
		if len(totals) > Series+1 {
			t.Fatalf("%d series", len(totals))
		}
		for tenant, total := range totals {
			if total < before[tenant] && total != 0 {
				t.Fatalf("%q went from %v to %v", tenant, before[tenant], total)
			}
		}
		before = totals
	}
	for i := range Series {
		c.Add(fmt.Sprint("early ", i), 10)
	}
	check()
	for range 5 {
		for i := range 3 * maxWaiting {
			c.Add(fmt.Sprint("small ", i), 1)
		}
		c.Add("large", 1000)
		check()
	}
	c.Add("large", 7)
	c.Add("", 1)
	totals := c.scrape()
	if totals["large"] < 1007 || totals[Others] == 0 {
		t.Errorf("the large tenant has %v, the others %v", totals["large"], totals[Others])
	}
	if n := testutil.CollectAndCount(c); n != Series+1 {
		t.Errorf("%d series, want one for each of %d tenants and one for the others", n, Series)
	}
	if len(c.waiting) > maxWaiting {
		t.Errorf("%d tenants wait", len(c.waiting))
	}
}

func TestCountingAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	c := NewCounterVec(prometheus.CounterOpts{Name: "events_total", Help: "Events."}, []string{"tenant"})
	c.Add("acme", 1)
	if n := testing.AllocsPerRun(100, func() { c.Add("acme", 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Package pertenant counts events by tenant, as a metric with a bounded number of series: those of
// the tenants with the most events, and one for all others.
package pertenant

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// Series is how many tenants have a series of their own.
	Series = 100
	// Others is the label of the series of all other tenants. No tenant is called that.
	Others = "*"

	maxWaiting = 10 * Series
)

// Counter is a counter by tenant. Any goroutine may use it. A tenant gets a series of its own while
// there is room. When it is full, a tenant that has had more than twice the events of the smallest
// one takes its series at the next scrape, and begins at 0. So no series ever goes back, and that of
// the others never jumps; what was counted of the tenant that lost its series is not shown any more.
type Counter struct {
	desc *prometheus.Desc

	mu      sync.Mutex
	own     map[string]*series
	others  float64
	waiting map[string]float64 // recent events of tenants without a series
}

type series struct {
	total  float64
	recent float64 // since the scrape, and half of what it was then
}

// NewCounterVec makes a counter, for the caller to register. labels is the label of the tenant alone.
func NewCounterVec(options prometheus.CounterOpts, labels []string) *Counter {
	c := &Counter{own: map[string]*series{}, waiting: map[string]float64{}}
	described := make(chan *prometheus.Desc, 1)
	prometheus.NewCounterVec(options, labels).Describe(described)
	c.desc = <-described
	return c
}

// Add counts n events of a tenant. It allocates nothing for a tenant that it knows, and keeps no text.
func (c *Counter) Add(tenant string, n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.own[tenant]
	switch _, known := c.waiting[tenant]; {
	case s != nil:
		s.total += n
		s.recent += n
		return
	case len(c.own) < Series:
		c.own[strings.Clone(tenant)] = &series{n, n}
		return
	case known:
		c.waiting[tenant] += n
	default:
		if len(c.waiting) == maxWaiting {
			c.forget()
		}
		if len(c.waiting) < maxWaiting {
			c.waiting[strings.Clone(tenant)] = n
		}
	}
	c.others += n
}

// Describe implements prometheus.Collector.
func (c *Counter) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *Counter) Collect(to chan<- prometheus.Metric) {
	for tenant, total := range c.scrape() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, total, tenant)
	}
}

// scrape returns the totals, and lets the largest of the waiting take the series of smaller ones.
func (c *Counter) scrape() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	totals := make(map[string]float64, len(c.own)+1)
	for tenant, s := range c.own {
		totals[tenant] = s.total
	}
	if c.others > 0 {
		totals[Others] = c.others
	}
	c.exchange()
	return totals
}

func (c *Counter) exchange() {
	if len(c.waiting) > 0 {
		small, large := make([]string, 0, len(c.own)), make([]string, 0, len(c.waiting))
		for tenant := range c.own {
			small = append(small, tenant)
		}
		for tenant := range c.waiting {
			large = append(large, tenant)
		}
		slices.SortFunc(small, func(a, b string) int {
			return cmp.Or(cmp.Compare(c.own[a].recent, c.own[b].recent), cmp.Compare(a, b))
		})
		slices.SortFunc(large, func(a, b string) int {
			return cmp.Or(cmp.Compare(c.waiting[b], c.waiting[a]), cmp.Compare(a, b))
		})
		for i, tenant := range large {
			recent := c.waiting[tenant]
			if i == len(small) || recent <= 2*c.own[small[i]].recent {
				break
			}
			delete(c.own, small[i])
			delete(c.waiting, tenant)
			c.own[tenant] = &series{recent: recent}
		}
	}
	for _, s := range c.own {
		s.recent /= 2
	}
	c.forget()
}

// forget halves what is known of the waiting, and forgets the smallest.
func (c *Counter) forget() {
	for tenant := range c.waiting {
		if c.waiting[tenant] /= 2; c.waiting[tenant] < 1 {
			delete(c.waiting, tenant)
		}
	}
}

package tenants

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/schemas"
)

const (
	// maxNamed is how many tenants have metrics of their own.
	maxNamed = 100
	// Other is the label of all others together. No tenant has this name.
	Other = schemas.AllTenants
	// rankInterval is the time between two looks for the largest tenants.
	rankInterval = time.Minute
)

// series are the counters of one tenant, or of all that have none of their own.
type series struct {
	beats, reads atomic.Uint64
	refused      [quotas]atomic.Uint64
}

// name gives an account a series of its own if one is free. The caller holds the lock.
func (a *Accounts) name(account *Account) {
	if a.named < maxNamed && account.tenant != Other {
		a.named++
		account.counted.Store(&series{})
	}
}

// rank gives the series to the largest tenants. A tenant loses its series to one that is twice as large,
// so that two of about the same size do not take turns. No counter of others ever decreases: what a
// tenant had counted there stays. The caller holds the lock.
func (a *Accounts) rank() {
	now := a.now()
	if now-a.ranked < rankInterval {
		return
	}
	a.ranked = now
	var named, others []*Account
	for _, account := range a.accounts {
		account.rank = account.rank/2 + account.recent.Swap(0) + account.held[Connections].Load() + account.held[Subscriptions].Load()
		switch {
		case account.counted.Load() != a.others:
			named = append(named, account)
		case account.tenant != Other && account.rank > 0:
			others = append(others, account)
		}
	}
	larger := func(x, y *Account) int { return cmp.Compare(y.rank, x.rank) }
	slices.SortFunc(named, larger)
	slices.SortFunc(others, larger)
	for _, account := range others {
		if a.named == maxNamed {
			last := len(named) - 1
			if last < 0 || account.rank <= 2*named[last].rank {
				return
			}
			named[last].counted.Store(a.others)
			named = named[:last]
			a.named--
		}
		a.name(account)
	}
}

var (
	beatsTotal = prometheus.NewDesc("stillhere_tenant_beats_total",
		"Accepted beats by tenant: of the 100 largest tenants of this process by name, of all others as tenant=\"*\".", []string{"tenant"}, nil)
	readsTotal = prometheus.NewDesc("stillhere_tenant_reads_total",
		"Accepted read requests by tenant; every 50 users of one count as a request.", []string{"tenant"}, nil)
	refusedTotal = prometheus.NewDesc("stillhere_tenant_refused_total",
		"Requests, reads, beats, connections and subscriptions refused because a tenant was over a quota.", []string{"tenant", "quota"}, nil)
	connectionsNow = prometheus.NewDesc("stillhere_tenant_connections",
		"Open sockets and streams by tenant.", []string{"tenant"}, nil)
	subscriptionsNow = prometheus.NewDesc("stillhere_tenant_subscriptions",
		"Users who are watched by tenant, each one per connection.", []string{"tenant"}, nil)
)

// Describe is for prometheus.Collector.
func (a *Accounts) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{beatsTotal, readsTotal, refusedTotal, connectionsNow, subscriptionsNow} {
		to <- d
	}
}

// Collect is for prometheus.Collector.
func (a *Accounts) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rank()
	var connections, subscriptions int64
	for _, account := range a.accounts {
		mine, open, watched := account.counted.Load(), account.held[Connections].Load(), account.held[Subscriptions].Load()
		if mine == a.others {
			connections, subscriptions = connections+open, subscriptions+watched
			continue
		}
		mine.collect(to, account.tenant, open, watched)
	}
	a.others.collect(to, Other, connections+a.rest.held[Connections].Load(), subscriptions+a.rest.held[Subscriptions].Load())
}

func (s *series) collect(to chan<- prometheus.Metric, tenant string, connections, subscriptions int64) {
	to <- prometheus.MustNewConstMetric(beatsTotal, prometheus.CounterValue, float64(s.beats.Load()), tenant)
	to <- prometheus.MustNewConstMetric(readsTotal, prometheus.CounterValue, float64(s.reads.Load()), tenant)
	to <- prometheus.MustNewConstMetric(connectionsNow, prometheus.GaugeValue, float64(connections), tenant)
	to <- prometheus.MustNewConstMetric(subscriptionsNow, prometheus.GaugeValue, float64(subscriptions), tenant)
	for q := range s.refused {
		if n := s.refused[q].Load(); n > 0 {
			to <- prometheus.MustNewConstMetric(refusedTotal, prometheus.CounterValue, float64(n), tenant, Quota(q).String())
		}
	}
}

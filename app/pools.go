package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/redisview"
)

// poolStats is what a pool of connections is doing. Counts grow from the start of
// the process.
type poolStats struct {
	used, idle, most float64 // most is 0 where it is not known
	acquired         float64
	waited           float64 // of acquired: had to wait for a connection
	wait             time.Duration
	refused          float64 // gave up waiting
}

// pool is a pool of connections for which Prometheus asks.
type pool struct {
	stats                                                  func() poolStats
	connections, most, acquired, waited, waitTime, refused *prometheus.Desc
}

func newPool(name string, stats func() poolStats) *pool {
	describe := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("stillhere_pool_"+metric, help, labels, prometheus.Labels{"pool": name})
	}
	return &pool{
		stats:       stats,
		connections: describe("connections", "Open connections by state: used, idle.", "state"),
		most:        describe("connections_max", "Connections that may be open."),
		acquired:    describe("acquired_total", "Times that a connection was asked for and given."),
		waited:      describe("waits_total", "Times that none was free."),
		waitTime:    describe("wait_seconds_total", "Time spent waiting for a free one."),
		refused:     describe("refused_total", "Times that waiting was given up."),
	}
}

// Describe tells which series there are.
func (p *pool) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.connections, p.most, p.acquired, p.waited, p.waitTime, p.refused} {
		to <- d
	}
}

// Collect tells what the pool is doing now.
func (p *pool) Collect(to chan<- prometheus.Metric) {
	s := p.stats()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value)
	}
	gauge(p.connections, s.used, "used")
	gauge(p.connections, s.idle, "idle")
	if s.most > 0 {
		gauge(p.most, s.most)
	}
	counter(p.acquired, s.acquired)
	counter(p.waited, s.waited)
	counter(p.waitTime, s.wait.Seconds())
	counter(p.refused, s.refused)
}

func (b *builder) watchView(view *redisview.View) {
	b.registry.MustRegister(newPool("redis_view", func() poolStats {
		s := view.PoolStats()
		return poolStats{
			used: float64(s.TotalConns) - float64(s.IdleConns), idle: float64(s.IdleConns), acquired: float64(s.Hits) + float64(s.Misses),
			waited: float64(s.WaitCount), wait: time.Duration(s.WaitDurationNs), refused: float64(s.Timeouts),
		}
	}))
}

func (b *builder) watchBus(bus *redisbus.Bus) {
	b.registry.MustRegister(newPool("redis_bus", func() poolStats {
		s := bus.PoolStats()
		return poolStats{
			used: float64(s.TotalConns) - float64(s.IdleConns), idle: float64(s.IdleConns), acquired: float64(s.Hits) + float64(s.Misses),
			waited: float64(s.WaitCount), wait: time.Duration(s.WaitDurationNs), refused: float64(s.Timeouts),
		}
	}))
}

func (b *builder) watchPostgres(store *pgstore.Store) {
	b.registry.MustRegister(newPool("postgres", func() poolStats {
		s := store.PoolStats()
		return poolStats{
			used: float64(s.AcquiredConns()), idle: float64(s.IdleConns()), most: float64(s.MaxConns()), acquired: float64(s.AcquireCount()),
			waited: float64(s.EmptyAcquireCount()), wait: s.EmptyAcquireWaitTime(), refused: float64(s.CanceledAcquireCount()),
		}
	}))
}

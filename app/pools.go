package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/redis"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// poolStats describes a connection pool. Counts grow from the start of the process.
type poolStats struct {
	used, idle, most float64 // most is 0 if unknown
	acquired         float64
	waited           float64 // acquired after a wait
	wait             time.Duration
	refused          float64 // gave up waiting
}

// pool exports the statistics of a connection pool to Prometheus.
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
		acquired:    describe("acquired_total", "Connections handed out."),
		waited:      describe("waits_total", "Requests that had to wait for a free connection."),
		waitTime:    describe("wait_seconds_total", "Time spent waiting for a free connection."),
		refused:     describe("refused_total", "Requests that gave up waiting."),
	}
}

// Describe sends the descriptions of the series.
func (p *pool) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.connections, p.most, p.acquired, p.waited, p.waitTime, p.refused} {
		to <- d
	}
}

// Collect sends the current values.
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

func redisPool(name string, stats func() redis.PoolStats) *pool {
	return newPool(name, func() poolStats {
		s := stats()
		return poolStats{
			used: float64(s.TotalConns) - float64(s.IdleConns), idle: float64(s.IdleConns), acquired: float64(s.Hits) + float64(s.Misses),
			waited: float64(s.WaitCount), wait: time.Duration(s.WaitDurationNs), refused: float64(s.Timeouts),
		}
	})
}

func postgresPool(store *pgstore.Store) *pool {
	return newPool("postgres", func() poolStats {
		s := store.PoolStats()
		return poolStats{
			used: float64(s.AcquiredConns()), idle: float64(s.IdleConns()), most: float64(s.MaxConns()), acquired: float64(s.AcquireCount()),
			waited: float64(s.EmptyAcquireCount()), wait: s.EmptyAcquireWaitTime(), refused: float64(s.CanceledAcquireCount()),
		}
	})
}

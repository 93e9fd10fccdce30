package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/redis"
	"github.com/stillhere/stillhere/lastseen/pgstore"
)

// poolStats describes a connection pool. Counts grow from the start of the process.
type poolStats struct {
	used, idle, most float64
	acquired         float64
	waited           float64 // acquired after a wait
	wait             time.Duration
	refused          float64 // gave up waiting
}

// registerPool exports the statistics of a connection pool. most says whether its size is known.
func registerPool(registry prometheus.Registerer, name string, most bool, stats func() poolStats) {
	registry = prometheus.WrapRegistererWith(prometheus.Labels{"pool": name}, registry)
	gauge := func(metric, help string, labels prometheus.Labels, value func(poolStats) float64) {
		options := prometheus.GaugeOpts{Name: "stillhere_pool_" + metric, Help: help, ConstLabels: labels}
		registry.MustRegister(prometheus.NewGaugeFunc(options, func() float64 { return value(stats()) }))
	}
	counter := func(metric, help string, value func(poolStats) float64) {
		options := prometheus.CounterOpts{Name: "stillhere_pool_" + metric, Help: help}
		registry.MustRegister(prometheus.NewCounterFunc(options, func() float64 { return value(stats()) }))
	}
	const connections = "Open connections by state: used, idle."
	gauge("connections", connections, prometheus.Labels{"state": "used"}, func(s poolStats) float64 { return s.used })
	gauge("connections", connections, prometheus.Labels{"state": "idle"}, func(s poolStats) float64 { return s.idle })
	if most {
		gauge("connections_max", "Connections that may be open.", nil, func(s poolStats) float64 { return s.most })
	}
	counter("acquired_total", "Connections handed out.", func(s poolStats) float64 { return s.acquired })
	counter("waits_total", "Requests that had to wait for a free connection.", func(s poolStats) float64 { return s.waited })
	counter("wait_seconds_total", "Time spent waiting for a free connection.",
		func(s poolStats) float64 { return s.wait.Seconds() })
	counter("refused_total", "Requests that gave up waiting.", func(s poolStats) float64 { return s.refused })
}

func registerRedisPool(registry prometheus.Registerer, name string, stats func() redis.PoolStats) {
	registerPool(registry, name, false, func() poolStats {
		s := stats()
		return poolStats{
			used: float64(s.TotalConns) - float64(s.IdleConns), idle: float64(s.IdleConns),
			acquired: float64(s.Hits) + float64(s.Misses), waited: float64(s.WaitCount),
			wait: time.Duration(s.WaitDurationNs), refused: float64(s.Timeouts),
		}
	})
}

func registerPostgresPool(registry prometheus.Registerer, store *pgstore.Store) {
	registerPool(registry, "postgres", true, func() poolStats {
		s := store.PoolStats()
		return poolStats{
			used: float64(s.AcquiredConns()), idle: float64(s.IdleConns()), most: float64(s.MaxConns()),
			acquired: float64(s.AcquireCount()), waited: float64(s.EmptyAcquireCount()),
			wait: s.EmptyAcquireWaitTime(), refused: float64(s.CanceledAcquireCount()),
		}
	})
}

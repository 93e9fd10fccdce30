package pgstore

import "github.com/prometheus/client_golang/prometheus"

// newSteps is what the parts of a transaction cost.
func newSteps() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "stillhere", Subsystem: "postgres", Name: "write_step_seconds",
		Help:    "Time of the parts of the sink's transactions: log (COPY), users (upsert), commit.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
	}, []string{"step"})
}

// Describe is part of prometheus.Collector, which a Store is.
func (s *Store) Describe(to chan<- *prometheus.Desc) { s.steps.Describe(to) }

// Collect is the other part.
func (s *Store) Collect(to chan<- prometheus.Metric) { s.steps.Collect(to) }

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

// newUnpartitioned is how many rows have no day.
func newUnpartitioned() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "stillhere", Subsystem: "postgres", Name: "default_partition_rows",
		Help: "Rows of the log of changes for whose day there was no partition when last looked, a minute ago or less; counted up to 100,000.",
	})
}

// Register registers the metrics of the store.
func (s *Store) Register(registry prometheus.Registerer) {
	registry.MustRegister(s.steps, s.unpartitioned)
}

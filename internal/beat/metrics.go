package beat

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of frames and of the reports in them. All methods may be called from
// any goroutine.
type Metrics struct {
	frames    *prometheus.CounterVec
	rows      prometheus.Counter
	failures  prometheus.Counter
	append    prometheus.Histogram
	coalesced prometheus.Counter
	shed      prometheus.Counter

	// Devices is how many devices are known to be online.
	Devices prometheus.Gauge
}

// NewMetrics makes the metrics and registers them with registry, which may be
// nil: then they are kept and nobody reads them. It panics when they are
// registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "stillhere", Subsystem: "ingest", Name: name, Help: help}
	}
	m := &Metrics{
		frames: prometheus.NewCounterVec(counter("frames_total", "Frames that Kafka has acknowledged."), []string{"kind"}),
		rows:   prometheus.NewCounter(counter("beats_written_total", "Beats in the frames that Kafka has acknowledged.")),
		failures: prometheus.NewCounter(counter("append_failures_total",
			"Frames of which it is not known that Kafka has them. Rises while Kafka is away.")),
		append: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "stillhere", Subsystem: "ingest",
			Name: "append_seconds", Help: "Time from sealing a frame to Kafka's answer.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2, 5, 10}}),
		coalesced: prometheus.NewCounter(counter("coalesced_total", "Reports replaced by a newer one of the same device before they were sent.")),
		shed: prometheus.NewCounter(counter("shed_total",
			"Unsent reports of devices that have gone, dropped while Kafka was away so that memory stays bounded by the devices that are here.")),
		Devices: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "stillhere", Subsystem: "ingest", Name: "devices",
			Help: "Devices that beat through this gateway."}),
	}
	if registry != nil {
		registry.MustRegister(m.frames, m.rows, m.failures, m.append, m.coalesced, m.shed, m.Devices)
	}
	return m
}

// Appended counts Kafka's answer to a frame of some kind ("beats", "alive",
// "draining", "visibility") with so many rows.
func (m *Metrics) Appended(kind string, rows int, took time.Duration, err error) {
	m.append.Observe(took.Seconds())
	if err != nil {
		m.failures.Inc()
		return
	}
	m.frames.WithLabelValues(kind).Inc()
	m.rows.Add(float64(rows))
}

// Coalesced counts reports replaced by newer ones before they were sent.
func (m *Metrics) Coalesced(n int) { m.coalesced.Add(float64(n)) }

// Shed counts unsent reports of devices that have gone that were dropped.
func (m *Metrics) Shed(n int) { m.shed.Add(float64(n)) }

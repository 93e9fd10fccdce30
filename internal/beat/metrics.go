package beat

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count frames and the reports in them. All methods may be called from any goroutine.
type Metrics struct {
	frames                             *prometheus.CounterVec // by kind
	rows, failures, coalesced, dropped prometheus.Counter
	append                             prometheus.Histogram

	// Devices is how many devices beat through this gateway.
	Devices prometheus.Gauge
}

// NewMetrics registers the metrics with registry, unless that is nil. It panics if they are
// registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "stillhere_ingest_" + name, Help: help})
	}
	return &Metrics{
		frames: f.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_ingest_frames_total",
			Help: "Frames that Kafka has acknowledged."}, []string{"kind"}),
		rows: counter("beats_written_total", "Beats in the frames that Kafka has acknowledged."),
		failures: counter("append_failures_total",
			"Frames of which it is not known that Kafka has them. Rises while Kafka is unreachable."),
		append: f.NewHistogram(prometheus.HistogramOpts{Name: "stillhere_ingest_append_seconds",
			Help:    "Time from sealing a frame to Kafka's answer.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2, 5, 10}}),
		coalesced: counter("coalesced_total",
			"Reports replaced by a newer one of the same device before they were sent."), dropped: counter("shed_total",
			"Unsent reports of devices that have left, dropped while Kafka was unreachable to bound the memory."),
		Devices: f.NewGauge(prometheus.GaugeOpts{Name: "stillhere_ingest_devices",
			Help: "Devices that beat through this gateway."}),
	}
}

// Appended counts Kafka's answer to a frame of a kind ("beats", "alive", "draining", "visibility", "erasure"), or
// to a record of the topic erasures ("erasures").
func (m *Metrics) Appended(kind string, rows int, took time.Duration, err error) {
	m.append.Observe(took.Seconds())
	if err != nil {
		m.failures.Inc()
		return
	}
	m.frames.WithLabelValues(kind).Inc()
	m.rows.Add(float64(rows))
}

// Coalesced counts reports that newer ones replaced before they were sent.
func (m *Metrics) Coalesced(n int) { m.coalesced.Add(float64(n)) }

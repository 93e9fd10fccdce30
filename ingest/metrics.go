package ingest

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stillhere/stillhere/internal/beat"
)

// Metrics are the service's metrics. All methods may be called from any goroutine.
type Metrics struct {
	*beat.Metrics
	requests *prometheus.CounterVec // by route and status
	closed   *prometheus.CounterVec // by reason

	// Sockets is how many sockets are open.
	Sockets prometheus.Gauge
	// Gateways is how many gateways name themselves over HTTP.
	Gateways prometheus.Gauge
}

// NewMetrics registers the metrics with registry, unless that is nil. It panics if they are
// registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	return &Metrics{
		Metrics: beat.NewMetrics(registry),
		requests: f.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_ingest_http_requests_total",
			Help: "Requests by route and status code."}, []string{"route", "code"}),
		closed: f.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_ingest_sockets_closed_total",
			Help: "Closed sockets by reason."}, []string{"reason"}),
		Sockets: f.NewGauge(prometheus.GaugeOpts{Name: "stillhere_ingest_sockets", Help: "Open sockets."}),
		Gateways: f.NewGauge(prometheus.GaugeOpts{Name: "stillhere_ingest_http_gateways",
			Help: "Gateways that name themselves over HTTP."}),
	}
}

// Answered counts a request.
func (m *Metrics) Answered(route, code string) { m.requests.WithLabelValues(route, code).Inc() }

// Closed counts a socket that was closed.
func (m *Metrics) Closed(reason string) { m.closed.WithLabelValues(reason).Inc() }

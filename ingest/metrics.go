package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/beat"
)

// Metrics are the service's metrics. All methods may be called from any goroutine.
type Metrics struct {
	*beat.Metrics
	requests *prometheus.CounterVec
	closed   *prometheus.CounterVec

	// Sockets is how many sockets are open.
	Sockets prometheus.Gauge
	// Gateways is how many named gateways come in over HTTP.
	Gateways prometheus.Gauge
}

// NewMetrics makes the metrics and registers them with registry, unless that is nil. It panics if
// they are registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "stillhere", Subsystem: "ingest", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "stillhere", Subsystem: "ingest", Name: name, Help: help})
	}
	m := &Metrics{
		Metrics:  beat.NewMetrics(registry),
		requests: prometheus.NewCounterVec(counter("http_requests_total", "Requests by route and status."), []string{"route", "status"}),
		closed:   prometheus.NewCounterVec(counter("sockets_closed_total", "Closed sockets by reason."), []string{"reason"}),
		Sockets:  gauge("sockets", "Open sockets."),
		Gateways: gauge("http_gateways", "Named gateways that come in over HTTP."),
	}
	if registry != nil {
		registry.MustRegister(m.requests, m.closed, m.Sockets, m.Gateways)
	}
	return m
}

// Answered counts a request.
func (m *Metrics) Answered(route, status string) { m.requests.WithLabelValues(route, status).Inc() }

// Closed counts a socket that was closed.
func (m *Metrics) Closed(reason string) { m.closed.WithLabelValues(reason).Inc() }

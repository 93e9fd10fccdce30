package reload

import "github.com/prometheus/client_golang/prometheus"

// Metrics tell how reloads went.
type Metrics struct {
	generation, successful, at, waiting prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) Metrics {
	m := Metrics{
		generation: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stillhere_config_generation",
			Help: "Configurations that this process has used: 1 after the start, one more with each reload.",
		}),
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stillhere_config_last_reload_successful",
			Help: "1 if the last reload of the configuration succeeded, or there was none; 0 if it failed and nothing was changed.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stillhere_config_last_reload_success_timestamp_seconds",
			Help: "Unix time of the last successful reload of the configuration, or of the start.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stillhere_config_settings_waiting_for_restart",
			Help: "Settings in the configuration that differ from those in use and need a restart.",
		}),
	}
	registry.MustRegister(m.generation, m.successful, m.at, m.waiting)
	return m
}

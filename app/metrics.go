package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// RegisterMetrics registers the metrics of this package, of all roles and without values, so that a test
// can list them.
func RegisterMetrics(registry prometheus.Registerer) {
	registry.MustRegister(buildInfo(""))
	newConnectionMetrics(registry)
	newDegraded(registry)
	newPolicyDiffers(registry)
	registerPool(registry, "", true, func() poolStats { return poolStats{} })
}

func newDegraded(registry prometheus.Registerer) *prometheus.GaugeVec {
	return promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{Name: "stillhere_degraded",
		Help: "1 while the process is ready, but a part is unreachable or lags behind; the label names the part."}, []string{"what"})
}

func newPolicyDiffers(registry prometheus.Registerer) prometheus.Gauge {
	return promauto.With(registry).NewGauge(prometheus.GaugeOpts{Name: "stillhere_policy_differs",
		Help: "1 while the flags of this process name another policy than the one in force: it uses the one in force, and would not start again. 1 also while partitions have different policies, and while detectors refuse the heartbeats of this process by its frame keys."})
}

package expand

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of planner and workers. One per process.
type Metrics struct {
	Planned    *prometheus.CounterVec // by outcome
	Jobs       *prometheus.CounterVec // by kind and outcome
	Followers  prometheus.Counter
	Recipients prometheus.Counter
	Deliveries prometheus.Counter
	Paced      prometheus.Counter
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register := promauto.With(r)
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "stillhere_fanout_followers_" + name, Help: help}
	}
	return &Metrics{
		Planned: register.NewCounterVec(opts("planned_total",
			"Transitions by what became of them: in_place, split, stop, superseded, hidden, unlisted, old, collided, audience (the user denies others than before), behind (the list of denied viewers is; tried again)."), []string{"outcome"}),
		Jobs: register.NewCounterVec(opts("jobs_total",
			"Jobs by kind and outcome: done, superseded, hidden, cut_short, old."), []string{"kind", "outcome"}),
		Followers:  register.NewCounter(opts("looked_at_total", "Followers that planner and workers read.")),
		Recipients: register.NewCounter(opts("recipients_total", "Followers put into delivery records.")),
		Deliveries: register.NewCounter(opts("deliveries_total", "Delivery records written.")),
		Paced:      register.NewCounter(opts("paced_seconds_total", "Time that workers waited because of their rate limit.")),
	}
}

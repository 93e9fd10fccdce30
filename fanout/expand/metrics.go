package expand

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the figures of planner and workers. One per process.
type Metrics struct {
	Planned    *prometheus.CounterVec // transitions, by what became of them
	Jobs       *prometheus.CounterVec // by kind and outcome
	Followers  prometheus.Counter     // read
	Recipients prometheus.Counter     // put into delivery records
	Deliveries prometheus.Counter     // delivery records
	Paced      prometheus.Counter     // seconds waited for the rate limit
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "stillhere_fanout_followers_" + name, Help: help}
	}
	m := &Metrics{
		Planned: prometheus.NewCounterVec(opts("planned_total",
			"Transitions by what became of them: in_place, split, stop, superseded, hidden, unlisted, old."), []string{"outcome"}),
		Jobs:       prometheus.NewCounterVec(opts("jobs_total", "Jobs by kind and outcome: done, superseded, hidden, cut_short, old."), []string{"kind", "outcome"}),
		Followers:  prometheus.NewCounter(opts("looked_at_total", "Followers that planner and workers read.")),
		Recipients: prometheus.NewCounter(opts("recipients_total", "Followers put into delivery records.")),
		Deliveries: prometheus.NewCounter(opts("deliveries_total", "Delivery records written.")),
		Paced:      prometheus.NewCounter(opts("paced_seconds_total", "Time that workers waited because of their rate limit.")),
	}
	r.MustRegister(m.Planned, m.Jobs, m.Followers, m.Recipients, m.Deliveries, m.Paced)
	return m
}

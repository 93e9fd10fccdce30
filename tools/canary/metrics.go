package canary

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// step is a step of a round. The values are a label of metrics.
type step string

const (
	watching step = "watch" // the stream shows the user's state at the start
	reset    step = "reset" // the user is made offline, after a failed round or a restart
	beat     step = "beat"
	online   step = "online"
	read     step = "read"
	bye      step = "bye"
	away     step = "away"
	silence  step = "silence"
	replay   step = "replay"
)

// measured are the steps with a latency.
var measured = []step{beat, online, read, bye, away, silence, replay}

// reason says why a step failed. The values are a label of metrics.
type reason string

const (
	timeout     reason = "timeout"     // not within Config.Timeout
	refused     reason = "refused"     // the answer was 4xx
	unavailable reason = "unavailable" // the answer was 408, 429 or 5xx
	unreachable reason = "unreachable" // there was no answer
	wrong       reason = "wrong"       // another state than expected
	early       reason = "early"       // the user left before the limit of the policy
	stale       reason = "stale"       // answers were marked as stale, or older than the stream
	missing     reason = "missing"     // presence.transitions lacks a change that the stream has shown
	doubled     reason = "doubled"     // presence.transitions has a change twice
)

// reasons are those that a step may fail for.
var reasons = map[step][]reason{
	watching: {timeout, refused, unavailable, unreachable},
	reset:    {timeout, refused, unavailable, unreachable},
	beat:     {timeout, refused, unavailable, unreachable},
	online:   {timeout, wrong},
	read:     {timeout, refused, unavailable, unreachable, stale, wrong},
	bye:      {timeout, refused, unavailable, unreachable, wrong},
	away:     {timeout, early, wrong},
	silence:  {timeout, early, wrong},
	replay:   {timeout, unreachable, missing, doubled, wrong},
}

// How a round ends, as a label of metrics: leaving is by bye or by silence.
const (
	byBye, bySilence    = "bye", "silence"
	roundOK, roundFails = "ok", "failed"
)

type metrics struct {
	steps     *prometheus.HistogramVec
	rounds    *prometheus.CounterVec
	failures  *prometheus.CounterVec
	succeeded *prometheus.GaugeVec
}

// newMetrics registers the metrics. Every series exists from the start, because increase() does not
// see the first count of a series that appears with it.
func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stillhere_canary_step_seconds",
			Help:    "How long a step took: from the beat, the bye or, for away and silence, the limit of the policy, until the stream showed the change; and how long beat, read and replay took.",
			Buckets: []float64{.005, .01, .025, .05, .1, .2, .35, .5, .75, 1, 1.5, 2.5, 5, 10, 30}}, []string{"step"}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_canary_rounds_total",
			Help: "Rounds by how the user left (bye, silence) and result (ok, failed)."}, []string{"leave", "result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_canary_failures_total",
			Help: "Failed steps by step and reason."}, []string{"step", "reason"}),
		succeeded: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stillhere_canary_last_success_timestamp_seconds",
			Help: "When the last successful round ended, in Unix time; the start of the process before there was one."}, []string{"leave"}),
	}
	for _, s := range measured {
		m.steps.WithLabelValues(string(s))
	}
	for s, all := range reasons {
		for _, r := range all {
			m.failures.WithLabelValues(string(s), string(r))
		}
	}
	for _, leave := range []string{byBye, bySilence} {
		m.rounds.WithLabelValues(leave, roundOK)
		m.rounds.WithLabelValues(leave, roundFails)
		m.success(leave)
	}
	if registry != nil {
		registry.MustRegister(m.steps, m.rounds, m.failures, m.succeeded)
	}
	return m
}

func (m *metrics) success(leave string) {
	m.succeeded.WithLabelValues(leave).Set(float64(time.Now().UnixMilli()) / 1000)
}

func (m *metrics) took(s step, d time.Duration) {
	m.steps.WithLabelValues(string(s)).Observe(max(d, 0).Seconds())
}

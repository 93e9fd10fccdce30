package kafka

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// Metrics are the metrics of all loops of a process. A nil *Metrics counts nothing.
type Metrics struct {
	registry prometheus.Registerer // nil: nothing is registered
	watched  *statusCollector

	topicPartitions, topicMismatch                                prometheus.Gauge
	parked, othersHanging                                         *prometheus.GaugeVec
	restores                                                      *prometheus.HistogramVec
	records, transactions, restarts, taskFailures, deadLetters    *prometheus.CounterVec
	ticks, forwards, rebalances, hanging, stalls, gaps, oversized *prometheus.CounterVec
	retries, hintsLost                                            *prometheus.CounterVec
}

// NewMetrics registers the metrics with registry, unless it is nil. Call it once per registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	const prefix = "stillhere_stream_"
	with := promauto.With(registry)
	gauge := func(name, help string) prometheus.Gauge {
		return with.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help},
			append([]string{"group"}, labels...))
	}
	m := &Metrics{
		registry:        registry,
		watched:         newStatusCollector(),
		topicPartitions: gauge("topic_partitions", "Partitions over which users are spread."),
		topicMismatch: gauge("topic_config_mismatch",
			"1 if the topics were changed while the process runs, so that it would refuse to start."),
		parked: gauges("parked", "1 if a partition is parked because its task fails repeatedly.", "group",
			"partition"),
		othersHanging: gauges("others_hanging", "Partitions with a hanging transaction that this process cannot end.",
			"group"),
		restores: with.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "restore_seconds",
			Help: "How long it took to restore a partition.", Buckets: []float64{.05, .1, .25, .5, 1, 2, 4, 8, 16, 32, 64}},
			[]string{"group"}),
		records:      counter("records_total", "Records handled."),
		transactions: counter("transactions_total", "Transactions ended, by how.", "outcome"),
		restarts:     counter("session_restarts_total", "Session restarts, by reason.", "reason"),
		taskFailures: counter("task_failures_total", "Task failures; each restores or parks its partition."),
		deadLetters:  counter("dead_letters_total", "Records sent to the dead-letter topic, by error code.", "code"),
		ticks:        counter("ticks_total", "Ticks appended, by outcome.", "outcome"),
		forwards:     counter("forwards_total", "Records forwarded outside transactions."),
		rebalances:   counter("rebalances_total", "Partitions assigned, revoked or lost.", "change"),
		hanging: counter("hanging_transactions_total",
			"Partitions in which this process ended a hanging transaction of its own."),
		stalls: counter("stalls_total", "Times that a partition made no progress for too long, by what was done.",
			"action"),
		gaps:      counter("gaps_total", "Times that records were missing from the input."),
		oversized: counter("skipped_batches_total", "Batches that were too large to be read."),
		retries:   counter("apply_retries_total", "Retries of batches."),
		hintsLost: counter("hints_lost_total", "Hints that were not written: too many under way, or Kafka refused them."),
	}
	if registry != nil {
		registry.MustRegister(m.watched)
	}
	return m
}

// Status is the present state of the process's loops.
func (m *Metrics) Status() []GroupStatus { return m.watched.all() }

// SetPartitions reports over how many partitions users are spread, so that partitions without an
// owner can be seen.
func (m *Metrics) SetPartitions(n int32) { m.topicPartitions.Set(float64(n)) }

// SetTopicMismatch reports whether the topics were changed while the process runs.
func (m *Metrics) SetTopicMismatch(mismatch bool) {
	if m != nil {
		m.topicMismatch.Set(one(mismatch))
	}
}

// OfGroup returns the metrics of one group.
func (m *Metrics) OfGroup(group string) GroupMetrics {
	if m == nil {
		m = NewMetrics(nil)
	}
	return GroupMetrics{m, group}
}

// GroupMetrics are the metrics of one group.
type GroupMetrics struct {
	*Metrics
	group string
}

func (g GroupMetrics) count(counter *prometheus.CounterVec, n int, label ...string) {
	if n > 0 { // no series for what has never happened
		counter.WithLabelValues(append([]string{g.group}, label...)...).Add(float64(n))
	}
}

func (g GroupMetrics) TransactionEnded(outcome string)      { g.count(g.transactions, 1, outcome) }
func (g GroupMetrics) SessionRestarted(reason string)       { g.count(g.restarts, 1, reason) }
func (g GroupMetrics) HangingEnded(n int)                   { g.count(g.hanging, n) }
func (g GroupMetrics) TaskFailed()                          { g.count(g.taskFailures, 1) }
func (g GroupMetrics) RecordsHandled(n int)                 { g.count(g.records, n) }
func (g GroupMetrics) DeadLetterWritten(code string)        { g.count(g.deadLetters, 1, code) }
func (g GroupMetrics) TickAppended(outcome string)          { g.count(g.ticks, 1, outcome) }
func (g GroupMetrics) RecordsForwarded(n int)               { g.count(g.forwards, n) }
func (g GroupMetrics) HintsLost(n int64)                    { g.count(g.hintsLost, int(n)) }
func (g GroupMetrics) PartitionsMoved(change string, n int) { g.count(g.rebalances, n, change) }
func (g GroupMetrics) Stalled(action string)                { g.count(g.stalls, 1, action) }
func (g GroupMetrics) GapFound()                            { g.count(g.gaps, 1) }
func (g GroupMetrics) BatchSkipped()                        { g.count(g.oversized, 1) }
func (g GroupMetrics) BatchRetried()                        { g.count(g.retries, 1) }
func (g GroupMetrics) SetForeignHanging(n int) {
	g.othersHanging.WithLabelValues(g.group).Set(float64(n))
}
func (g GroupMetrics) PartitionRestored(seconds float64) {
	g.restores.WithLabelValues(g.group).Observe(seconds)
}
func (g GroupMetrics) PartitionParked(partition int32) {
	g.parked.WithLabelValues(g.group, strconv.Itoa(int(partition))).Set(1)
}

// Watch reports the status of a loop until the caller calls remove.
func (g GroupMetrics) Watch(status func() []PartitionStatus) (remove func()) {
	return g.watched.add(g.group, status)
}

// watchProducer reports what the shared producer holds. A second producer of the process shares
// the series of the first.
func (m *Metrics) watchProducer(client *kgo.Client) {
	if m == nil || m.registry == nil {
		return
	}
	_ = m.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stillhere_stream_producer_buffered_records",
		Help: "Records that wait for Kafka's acknowledgement."},
		func() float64 { return float64(client.BufferedProduceRecords()) }))
}

// ClientHooks makes a client report connections, bytes, records and errors as stillhere_kafka_*,
// until the client is closed. name distinguishes the clients of a process: the group that it
// consumes for, or "producer".
func (m *Metrics) ClientHooks(name string) []kgo.Opt {
	if m == nil || m.registry == nil {
		return nil
	}
	registry := firstWins{prometheus.WrapRegistererWith(prometheus.Labels{"client": name}, m.registry)}
	return []kgo.Opt{kgo.WithHooks(kprom.NewMetrics("stillhere_kafka",
		kprom.Registerer(registry),
		kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.Batches, kprom.Records, kprom.CompressedBytes,
			kprom.UncompressedBytes),
	))}
}

// firstWins ignores a second client of the same name: one session of a group may end while the
// next one begins.
type firstWins struct{ prometheus.Registerer }

func (l firstWins) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		_ = l.Register(c) // the first one stays
	}
}

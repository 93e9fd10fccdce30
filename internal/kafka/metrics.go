package kafka

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// Metrics are the figures of all loops of a process. A nil *Metrics counts
// nothing.
type Metrics struct {
	registry prometheus.Registerer
	watched  *statusCollector

	topicPartitions                                   prometheus.Gauge
	topicMismatch, topicsWrong, parked, othersHanging *prometheus.GaugeVec
	restores                                          *prometheus.HistogramVec
	transactions, restarts, records, deadLetters      *prometheus.CounterVec
	ticks, forwards, rebalances, stalls, gaps, reads  *prometheus.CounterVec
	retries, taskFailures, hanging                    *prometheus.CounterVec
}

// NewMetrics registers the figures with registry. Once per registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	const namespace, subsystem = "stillhere", "stream"
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	m := &Metrics{
		registry: registry,
		watched:  newStatusCollector(),
		topicPartitions: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "topic_partitions",
			Help: "Partitions over which users are spread."}),
		topicMismatch: gauge("topic_config_mismatch", "1 if the topics were changed while the process runs, so that it would refuse to start."),
		topicsWrong:   gauge("topics_wrong", "Old name of topic_config_mismatch; removed in the next release."),
		parked:        gauge("parked", "1 if a partition is parked because its task fails repeatedly.", "group", "partition"),
		othersHanging: gauge("others_hanging", "Partitions with a hanging transaction that this process cannot end.", "group"),
		restores: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "restore_seconds",
			Help: "How long it took to restore a partition.", Buckets: []float64{.05, .1, .25, .5, 1, 2, 4, 8, 16, 32, 64}}, []string{"group"}),
		records:      counter("records_total", "Records handled.", "group"),
		transactions: counter("transactions_total", "Transactions ended, by how.", "group", "outcome"),
		restarts:     counter("session_restarts_total", "Session restarts, by reason.", "group", "reason"),
		taskFailures: counter("task_failures_total", "Task failures; each restores or parks its partition.", "group"),
		deadLetters:  counter("dead_letters_total", "Records sent to the dead-letter topic, by error code.", "group", "code"),
		ticks:        counter("ticks_total", "Ticks appended, by outcome.", "group", "outcome"),
		forwards:     counter("forwards_total", "Records forwarded outside transactions.", "group"),
		rebalances:   counter("rebalances_total", "Partitions assigned, revoked or lost.", "group", "change"),
		hanging:      counter("hanging_transactions_total", "Partitions in which this process ended a hanging transaction of its own.", "group"),
		stalls:       counter("stalls_total", "Times that a partition made no progress for too long, by what was done.", "group", "action"),
		gaps:         counter("gaps_total", "Times that records were missing from the input.", "group"),
		reads:        counter("skipped_batches_total", "Batches that were too large to be read.", "group"),
		retries:      counter("apply_retries_total", "Retries of batches.", "group"),
	}
	registry.MustRegister(m.restores, m.watched, m.topicPartitions)
	m.SetTopicMismatch(false)
	return m
}

// Status is how far the loops of this process are now.
func (m *Metrics) Status() []GroupStatus { return m.watched.all() }

// SetPartitions tells over how many partitions users are spread, so that those
// without an owner can be seen.
func (m *Metrics) SetPartitions(n int32) { m.topicPartitions.Set(float64(n)) }

// SetTopicMismatch reports whether the topics were changed while the process runs.
func (m *Metrics) SetTopicMismatch(mismatch bool) {
	if m == nil {
		return
	}
	for _, gauge := range []*prometheus.GaugeVec{m.topicMismatch, m.topicsWrong} {
		gauge.WithLabelValues().Set(one(mismatch))
	}
}

// OfGroup gives the figures of one group.
func (m *Metrics) OfGroup(group string) GroupMetrics { return GroupMetrics{m, group} }

// GroupMetrics are the figures of one group; all methods work on none.
type GroupMetrics struct {
	*Metrics
	group string
}

func (g GroupMetrics) enabled() bool { return g.Metrics != nil }

func (g GroupMetrics) count(v func(*Metrics) *prometheus.CounterVec, n int, labels ...string) {
	if g.enabled() && n > 0 {
		v(g.Metrics).WithLabelValues(append([]string{g.group}, labels...)...).Add(float64(n))
	}
}

func (g GroupMetrics) TransactionEnded(outcome string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.transactions }, 1, outcome)
}

func (g GroupMetrics) SessionRestarted(reason string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.restarts }, 1, reason)
}

func (g GroupMetrics) HangingEnded(n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.hanging }, n)
}

func (g GroupMetrics) SetForeignHanging(n int) {
	if g.enabled() {
		g.othersHanging.WithLabelValues(g.group).Set(float64(n))
	}
}

func (g GroupMetrics) TaskFailed() {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.taskFailures }, 1)
}

func (g GroupMetrics) RecordsHandled(n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.records }, n)
}

func (g GroupMetrics) DeadLetterWritten(code string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.deadLetters }, 1, code)
}

func (g GroupMetrics) TickAppended(outcome string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.ticks }, 1, outcome)
}

func (g GroupMetrics) RecordsForwarded(n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.forwards }, n)
}

func (g GroupMetrics) PartitionsMoved(change string, n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.rebalances }, n, change)
}

func (g GroupMetrics) Stalled(action string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.stalls }, 1, action)
}

func (g GroupMetrics) GapFound() {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.gaps }, 1)
}

func (g GroupMetrics) BatchSkipped() {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.reads }, 1)
}

func (g GroupMetrics) BatchRetried() {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.retries }, 1)
}

func (g GroupMetrics) PartitionRestored(seconds float64) {
	if g.enabled() {
		g.restores.WithLabelValues(g.group).Observe(seconds)
	}
}

// Watch shows how far a loop is until the function that it returns is called.
func (g GroupMetrics) Watch(status func() []PartitionStatus) (remove func()) {
	if !g.enabled() {
		return func() {}
	}
	return g.watched.add(g.group, status)
}

func (g GroupMetrics) PartitionParked(partition int32) {
	if g.enabled() {
		g.parked.WithLabelValues(g.group, strconv.Itoa(int(partition))).Set(1)
	}
}

// watchProducer reports what the shared producer holds.
func (m *Metrics) watchProducer(client *kgo.Client) {
	if m == nil {
		return
	}
	buffered := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "stillhere", Subsystem: "stream", Name: "producer_buffered_records",
		Help: "Records that wait for Kafka's acknowledgement."}, func() float64 { return float64(client.BufferedProduceRecords()) })
	// A second producer of the process shares the first one's series.
	_ = m.registry.Register(buffered)
}

// ClientHooks makes a client report connections, bytes, records and errors
// under stillhere_kafka_, told from the other clients of the process by name: the
// group it consumes for, or "producer". They go with the client.
func (m *Metrics) ClientHooks(name string) []kgo.Opt {
	if m == nil {
		return nil
	}
	registry := firstWins{prometheus.WrapRegistererWith(prometheus.Labels{"client": name}, m.registry)}
	return []kgo.Opt{kgo.WithHooks(kprom.NewMetrics("stillhere_kafka",
		kprom.Registerer(registry),
		kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.Batches, kprom.Records, kprom.CompressedBytes, kprom.UncompressedBytes),
	))}
}

// firstWins lets the second client of a name go unseen where two overlap, as when
// one session of a group ends while the next begins, rather than panic.
type firstWins struct{ prometheus.Registerer }

func (l firstWins) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		_ = l.Register(c) // the first one is seen
	}
}

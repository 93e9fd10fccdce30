package kafka

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Metrics are the figures of all loops of a process. A nil *Metrics counts
// nothing.
type Metrics struct {
	registry prometheus.Registerer
	watched  *watched

	topicPartitions, topicsFault                     prometheus.Gauge
	parked, othersHanging                            *prometheus.GaugeVec
	restores                                         *prometheus.HistogramVec
	transactions, restarts, records, deadLetters     *prometheus.CounterVec
	ticks, forwards, rebalances, stalls, gaps, reads *prometheus.CounterVec
	retries, taskFailures, hanging                   *prometheus.CounterVec
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
		watched:  newWatched(),
		topicPartitions: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "topic_partitions",
			Help: "Partitions over which users are spread."}),
		topicsFault: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "topics_wrong",
			Help: "1 where the topics were changed under the running process so that it could not be started any more."}),
		parked:        gauge("parked", "1 where a partition is set aside because its task fails again and again.", "group", "partition"),
		othersHanging: gauge("others_hanging", "Partitions in which a transaction hangs that this process cannot end: another one's, or one whose producer has another id by now.", "group"),
		restores: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "restore_seconds",
			Help: "How long it took to restore a partition.", Buckets: []float64{.05, .1, .25, .5, 1, 2, 4, 8, 16, 32, 64}}, []string{"group"}),
		records:      counter("records_total", "Records handled.", "group"),
		transactions: counter("transactions_total", "Transactions ended, by how.", "group", "outcome"),
		restarts:     counter("session_restarts_total", "Sessions thrown away and started anew, by reason.", "group", "reason"),
		taskFailures: counter("task_failures_total", "Times that the task of a partition failed, which was restored or parked for it.", "group"),
		deadLetters:  counter("dead_letters_total", "Records set aside in the dead letter topic, by error code.", "group", "code"),
		ticks:        counter("ticks_total", "Ticks appended, by outcome.", "group", "outcome"),
		forwards:     counter("forwards_total", "Records forwarded outside of transactions.", "group"),
		rebalances:   counter("rebalances_total", "Partitions that came or went, by how.", "group", "change"),
		hanging:      counter("hanging_transactions_total", "Partitions in which Kafka had left a transaction of ours open that was over, and where we ended it.", "group"),
		stalls:       counter("stalls_total", "Times that a partition made no progress for too long, by what was done.", "group", "action"),
		gaps:         counter("gaps_total", "Times that records were missing from the input.", "group"),
		reads:        counter("skipped_batches_total", "Batches that were too large to be read.", "group"),
		retries:      counter("apply_retries_total", "Batches that had to be applied again.", "group"),
	}
	registry.MustRegister(m.restores, m.watched, m.topicPartitions, m.topicsFault)
	return m
}

// Status is how far the loops of this process are now.
func (m *Metrics) Status() []GroupStatus { return m.watched.all() }

// Partitions tells over how many partitions users are spread, so that those
// without an owner can be seen.
func (m *Metrics) Partitions(n int32) { m.topicPartitions.Set(float64(n)) }

func (m *Metrics) topicsWrong(wrong bool) {
	if m == nil {
		return
	}
	m.topicsFault.Set(0)
	if wrong {
		m.topicsFault.Set(1)
	}
}

// of gives the figures of one group.
func (m *Metrics) of(group string) groupMetrics { return groupMetrics{m, group} }

// groupMetrics are the figures of one group; all methods work on none.
type groupMetrics struct {
	*Metrics
	group string
}

func (g groupMetrics) on() bool { return g.Metrics != nil }

func (g groupMetrics) count(v func(*Metrics) *prometheus.CounterVec, n int, labels ...string) {
	if g.on() && n > 0 {
		v(g.Metrics).WithLabelValues(append([]string{g.group}, labels...)...).Add(float64(n))
	}
}

func (g groupMetrics) transaction(outcome string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.transactions }, 1, outcome)
}

func (g groupMetrics) restart(reason string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.restarts }, 1, reason)
}

func (g groupMetrics) ended(n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.hanging }, n)
}

func (g groupMetrics) othersHang(n int) {
	if g.on() {
		g.othersHanging.WithLabelValues(g.group).Set(float64(n))
	}
}

func (g groupMetrics) taskFailed() {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.taskFailures }, 1)
}

func (g groupMetrics) handled(n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.records }, n)
}

func (g groupMetrics) deadLetter(code string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.deadLetters }, 1, code)
}

func (g groupMetrics) tick(outcome string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.ticks }, 1, outcome)
}

func (g groupMetrics) forwarded(n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.forwards }, n)
}

func (g groupMetrics) rebalance(change string, n int) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.rebalances }, n, change)
}

func (g groupMetrics) stall(action string) {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.stalls }, 1, action)
}

func (g groupMetrics) gap() { g.count(func(m *Metrics) *prometheus.CounterVec { return m.gaps }, 1) }

func (g groupMetrics) skippedBatch() {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.reads }, 1)
}

func (g groupMetrics) retry() {
	g.count(func(m *Metrics) *prometheus.CounterVec { return m.retries }, 1)
}

func (g groupMetrics) restored(seconds float64) {
	if g.on() {
		g.restores.WithLabelValues(g.group).Observe(seconds)
	}
}

// watch shows how far a loop is until the function that it returns is called.
func (g groupMetrics) watch(status func() []PartitionStatus) (remove func()) {
	if !g.on() {
		return func() {}
	}
	return g.watched.add(g.group, status)
}

func (g groupMetrics) park(partition int32) {
	if g.on() {
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

package detector

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stillhere/stillhere/internal/pertenant"
	"github.com/stillhere/stillhere/schemas"
)

// Metrics are the detector's metrics. The partitions of a process share them.
type Metrics struct {
	Beats           prometheus.Counter
	Transitions     *prometheus.CounterVec // by cause and state
	Rejected        prometheus.Counter
	Refused         prometheus.Counter
	Refusing        prometheus.Gauge
	Misrouted       prometheus.Counter
	LostFrames      prometheus.Counter
	DuplicateFrames prometheus.Counter
	GatewaysLost    prometheus.Counter
	GatewaysDrained prometheus.Counter
	GatewaysStill   prometheus.Gauge
	CohortReturned  prometheus.Counter
	CohortReleased  prometheus.Counter
	Unknown         prometheus.Counter
	RejectedStatus  prometheus.Counter
	Evicted         prometheus.Counter
	DeniesRefused   prometheus.Counter
	LeftOut         prometheus.Counter
	NoPlace         prometheus.Counter
	BreakerTrips    prometheus.Counter
	BreakerOpen     prometheus.Gauge
	SeenUsers       prometheus.Counter
	Mismatched      prometheus.Counter
	Users           *prometheus.GaugeVec // by state and device kind
	Restores        *prometheus.CounterVec
	SnapshotAge     *prometheus.GaugeVec // by partition
	SnapshotBytes   *prometheus.GaugeVec // by partition
	SnapshotTime    prometheus.Histogram
	SnapshotPause   prometheus.Histogram
	TenantChanges   *pertenant.Counter // transitions of users with names

	tenantUsers *tenantUsers

	users       [2][1 + len(schemas.Kinds)]prometheus.Gauge                  // those of Users: online, away; any kind, then by kind
	transitions [len(schemas.Causes)][len(schemas.States)]prometheus.Counter // those of Transitions
}

// NewMetrics registers the detector's metrics with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "stillhere_detector_" + name + "_total", Help: help})
	}
	m := &Metrics{
		Beats: counter("beats", "Beats and byes read from the heartbeats topic."),
		Transitions: f.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_detector_transitions_total",
			Help: "Published transitions, by cause and new state."}, []string{"cause", "to"}),
		Rejected: counter("rejected_records", "Records that could not be decoded and were sent to the dead-letter topic."),
		Refused:  counter("refused_frames", "Frames that no key had signed which may write them. They count for nothing and are among the rejected records."),
		Refusing: f.NewGauge(prometheus.GaugeOpts{Name: "stillhere_detector_refusing_partitions",
			Help: "Partitions of which frames were refused for a minute, and none counted."}),
		Misrouted:       counter("misrouted_beats", "Beats that had been written to a wrong partition and were forwarded. Set partitioner=murmur2_random in librdkafka clients."),
		LostFrames:      counter("lost_frames", "Frames missing in the sequences of gateways."),
		DuplicateFrames: counter("duplicate_frames", "Duplicate frames, which do not count."),
		GatewaysLost:    counter("gateways_lost", "Gateways lost, per partition in which they had users."),
		GatewaysStill: f.NewGauge(prometheus.GaugeOpts{Name: "stillhere_detector_gateways_still_seconds",
			Help: "Time since the last record of the topic gateways. Meanwhile no gateway with a lease is lost."}),
		CohortReturned:  counter("cohort_returned", "Devices of lost gateways that were heard again in time."),
		CohortReleased:  counter("cohort_released", "Devices of lost gateways that did not return in time and were released."),
		GatewaysDrained: counter("gateways_drained", "Gateways that stopped as planned, per partition in which they had users."),
		Unknown:         counter("restored_unknown", "Users restored without their heartbeats, which were lost. They count as heard at the restart."),
		RejectedStatus:  counter("rejected_statuses", "Records of the status topic that no detector of this partition can have written."),
		Evicted:         counter("evicted_devices", "Devices removed because their user has more than max_devices of the policy."),
		DeniesRefused:   counter("refused_denies", "Changes of a user's denied viewers that were dropped, because the list would have exceeded 10,000."),
		LeftOut:         counter("left_out_changes", "Changes that were published later or not at all, because their user changed too often."),
		NoPlace:         counter("gateways_without_place_frames", "Frames of gateways beyond those that a partition can distinguish; their devices have no cohort."),
		BreakerTrips:    counter("breaker_trips", "Times that presence time was stopped because many gateways fell silent at once."),
		BreakerOpen: f.NewGauge(prometheus.GaugeOpts{Name: "stillhere_detector_breaker_open_partitions",
			Help: "Partitions in which presence time stands still because many gateways fell silent at once."}),
		SeenUsers: counter("seen_users", "Rows written to the topic seen: users and when they were heard last."),
		Mismatched: f.NewCounter(prometheus.CounterOpts{Name: "stillhere_identity_mismatches_total",
			Help: "Records with a name that is not that of its user id, or of a user who is known under another name. Their rows are left out."}),
		Users: f.NewGaugeVec(prometheus.GaugeOpts{Name: "stillhere_users",
			Help: "Visible users who are online or away, in the partitions of this process. kind=\"any\" counts each user once; a device kind counts the users with a present device of that kind, so a user may count for several."},
			[]string{"state", "kind"}),
		Restores: f.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_detector_restores_total",
			Help: "Restored partitions, by kind: snapshot (exact), lossy (from the statuses; see restored_unknown), new (nothing was known)."},
			[]string{"kind"}),
		SnapshotAge: f.NewGaugeVec(prometheus.GaugeOpts{Name: "stillhere_detector_snapshot_age_seconds",
			Help: "Log time since the state of the newest complete snapshot, as of the last tick. A restart reads the heartbeats since then."},
			[]string{"partition"}),
		SnapshotBytes: f.NewGaugeVec(prometheus.GaugeOpts{Name: "stillhere_detector_snapshot_bytes",
			Help: "Size of the newest complete snapshot."}, []string{"partition"}),
		SnapshotTime: f.NewHistogram(prometheus.HistogramOpts{Name: "stillhere_detector_snapshot_write_seconds",
			Help: "Time from the beginning of a snapshot until its last chunk.", Buckets: []float64{.01, .1, .5, 1, 5, 15, 60, 300}}),
		SnapshotPause: f.NewHistogram(prometheus.HistogramOpts{Name: "stillhere_detector_snapshot_pause_seconds",
			Help: "How long one record waited for the work on a snapshot.", Buckets: []float64{.0001, .00025, .0005, .001, .002, .005, .02, .1, 1}}),
	}
	m.TenantChanges = pertenant.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_tenant_changes_total",
		Help: "With --ids text: published transitions by tenant; of the 100 tenants with the most, and of all others as tenant=\"*\"."}, []string{"tenant"})
	r.MustRegister(m.TenantChanges)
	m.tenantUsers = newTenantUsers(r)
	for i, state := range []schemas.State{schemas.Online, schemas.Away} {
		m.users[i][0] = m.Users.WithLabelValues(schemas.StateWord(state), "any")
		for j, kind := range schemas.Kinds {
			m.users[i][1+j] = m.Users.WithLabelValues(schemas.StateWord(state), schemas.KindWord(kind))
		}
	}
	for i, cause := range schemas.Causes {
		for j, state := range schemas.States {
			m.transitions[i][j] = m.Transitions.WithLabelValues(schemas.CauseWord(cause), schemas.StateWord(state))
		}
	}
	return m
}

// transition counts t.
func (m *Metrics) transition(t *schemas.Transition) {
	m.transitions[t.Cause-schemas.Causes[0]][t.To-schemas.States[0]].Inc()
}

// snapshot shows the newest complete snapshot of a partition.
func (m *Metrics) snapshot(partition int32, age schemas.Millis, size int) {
	label := strconv.Itoa(int(partition))
	m.SnapshotAge.WithLabelValues(label).Set(float64(age) / 1000)
	m.SnapshotBytes.WithLabelValues(label).Set(float64(size))
}

// noSnapshot removes the series of a partition.
func (m *Metrics) noSnapshot(partition int32) {
	label := strconv.Itoa(int(partition))
	m.SnapshotAge.DeleteLabelValues(label)
	m.SnapshotBytes.DeleteLabelValues(label)
}

// byState are the counts of the users who are online, and of those who are away.
type byState [2]schemas.Counts

// show replaces a partition's part of the gauges of users.
func (m *Metrics) show(now, before *byState) {
	for i := range m.users {
		m.users[i][0].Add(float64(now[i].Online + now[i].Away - before[i].Online - before[i].Away))
		for j := range schemas.Kinds {
			m.users[i][1+j].Add(float64(now[i].ByKind[j] - before[i].ByKind[j]))
		}
	}
}

package lastseen

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of a write of the sink, values of the label "result".
const (
	Written        = "written"
	AlreadyWritten = "already_written" // another attempt or owner had written it
	Fenced         = "fenced"          // another owner has moved the partition's offset
	Unavailable    = "unavailable"     // the store cannot now; trying again helps
	Refused        = "refused"         // the store understood and said no; a fault of program or schema
)

// Metrics are the service's metrics.
type Metrics struct {
	SinkRows        prometheus.Counter
	SinkWrites      *prometheus.CounterVec // result
	SinkWriteTime   prometheus.Histogram
	SinkBatch       prometheus.Histogram
	SinkWrittenUpTo *prometheus.GaugeVec // partition

	TenantsDropped prometheus.Counter // changes
	TenantsPending prometheus.Gauge

	ProjectorUpdates   *prometheus.CounterVec // result: written, older
	ProjectorWatermark *prometheus.GaugeVec   // partition
	ProjectorRebuilds  *prometheus.CounterVec // reason: new, empty, regressed, node_empty, restored_log
	ProjectorRebuilt   prometheus.Counter     // users
	SeenUpdates        *prometheus.CounterVec // result: written, older
	UnsureUpdates      *prometheus.CounterVec // result: written, older
	Awaited            *Awaited

	ReadUsers     *prometheus.CounterVec // source: redis, store
	ReadStale     prometheus.Counter
	ReadRedisLost prometheus.Counter
	Requests      *prometheus.CounterVec // route, code
	RequestTime   *prometheus.HistogramVec
	Changes       *prometheus.CounterVec // answer
}

// NewMetrics registers the metrics with registry. It panics if they are registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "stillhere", Subsystem: "lastseen", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "stillhere", Subsystem: "lastseen", Name: name, Help: help}
	}
	seconds := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "stillhere", Subsystem: "lastseen", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)}
	}
	return &Metrics{
		SinkRows: f.NewCounter(counter("sink_rows_total", "Transitions written to the durable store.")),
		SinkWrites: f.NewCounterVec(counter("sink_writes_total",
			"Transactions of the sink by result: written, already_written, fenced, unavailable, refused."), []string{"result"}),
		SinkWriteTime: f.NewHistogram(seconds("sink_write_seconds", "Time of one transaction of the sink.")),
		SinkBatch: f.NewHistogram(prometheus.HistogramOpts{Namespace: "stillhere", Subsystem: "lastseen", Name: "sink_batch_rows",
			Help: "Transitions in one transaction of the sink.", Buckets: prometheus.ExponentialBuckets(1, 4, 9)}),
		SinkWrittenUpTo: f.NewGaugeVec(gauge("sink_written_up_to_seconds",
			"Append time of the newest transition written, Unix seconds."), []string{"partition"}),

		TenantsDropped: f.NewCounter(counter("tenant_history_dropped_total",
			"Changes deleted because their tenant keeps fewer days (its setting history_days).")),
		TenantsPending: f.NewGauge(gauge("tenant_history_pending",
			"Tenants of which changes are to be deleted that are older than the days that they keep; nobody is shown these.")),

		ProjectorUpdates: f.NewCounterVec(counter("projector_updates_total",
			"Users written to Redis; older = a newer version was there already."), []string{"result"}),
		ProjectorWatermark: f.NewGaugeVec(gauge("projector_watermark_seconds",
			"Log time up to which Redis shows everything, Unix seconds."), []string{"partition"}),
		ProjectorRebuilds: f.NewCounterVec(counter("projector_rebuilds_total",
			"Rebuilds of a partition's part of Redis by reason: new, empty, regressed, node_empty, restored_log."), []string{"reason"}),
		ProjectorRebuilt: f.NewCounter(counter("projector_rebuilt_users_total", "Users written by rebuilds.")),
		SeenUpdates: f.NewCounterVec(counter("seen_updates_total",
			"Newest heartbeats of users written to Redis; older = something newer was there already."), []string{"result"}),
		UnsureUpdates: f.NewCounterVec(counter("unsure_updates_total",
			"Users of lost gateways who became unsure, or no longer are, written to Redis; older = something newer was there already."),
			[]string{"result"}),
		Awaited: &Awaited{epochs: map[string]map[int32]int64{}, gauge: f.NewGaugeVec(gauge("log_epoch_awaited",
			"The least log epoch of which a store (sink, projector) takes changes, while it takes none because Kafka was restored from a copy older than the store."),
			[]string{"store", "partition"})},

		ReadUsers: f.NewCounterVec(counter("read_users_total",
			"Users read by who answered: redis, store."), []string{"source"}),
		ReadStale:     f.NewCounter(counter("read_stale_total", "Answers about a user that carried stale_since.")),
		ReadRedisLost: f.NewCounter(counter("read_redis_lost_total", "Reads that Redis did not answer in time.")),
		Requests:      f.NewCounterVec(counter("requests_total", "HTTP reads by route and status."), []string{"route", "code"}),
		RequestTime:   f.NewHistogramVec(seconds("request_seconds", "Time of HTTP reads by route."), []string{"route"}),
		Changes: f.NewCounterVec(counter("changes_total", "Answers about missed changes: listed, or why the current "+
			"states were sent instead: start, unknown, retention, log_epoch, too_many."), []string{"answer"}),
	}
}

// Partition is the value of the label "partition".
func Partition(partition int32) string { return strconv.Itoa(int(partition)) }

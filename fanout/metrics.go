package fanout

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of the live stream. One per process: publish, redisbus and live share it.
type Metrics struct {
	Published, Superseded, Withheld prometheus.Counter // of publish

	BusConnected, Channels                               prometheus.Gauge // of redisbus
	BusLost, BusUnreadable, ChangesTaken, ChangesDropped prometheus.Counter

	Connections            *prometheus.GaugeVec   // by kind: websocket, events, embedded
	Refused, Disconnected  *prometheus.CounterVec // by reason
	Errors                 *prometheus.CounterVec // by code
	Subscriptions, Watched prometheus.Gauge
	Queued, Collapsed      prometheus.Counter
	Reread, Resynced       prometheus.Counter
	Revoked                prometheus.Counter
	Compared, Lost         prometheus.Counter
	ReadSeconds            prometheus.Histogram

	deliveriesSent prometheus.Counter
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: "stillhere_fanout_" + name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_fanout_" + name, Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: "stillhere_fanout_" + name, Help: help})
	}
	return &Metrics{
		Published:      counter("published_total", "Changes published on a user's channel."),
		Superseded:     counter("superseded_total", "Changes not published because Redis already had this version or a newer one."),
		Withheld:       counter("withheld_total", "Transitions of hidden users, of which nothing was published."),
		BusConnected:   gauge("bus_connected", "1 while the Redis subscriber connection is up."),
		BusLost:        counter("bus_lost_total", "Times the Redis subscriber connection was lost."),
		BusUnreadable:  counter("bus_unreadable_total", "Messages on a channel that could not be read."),
		Channels:       gauge("channels", "Redis channels this node is subscribed to."),
		ChangesTaken:   counter("changes_total", "Changes received on the channels."),
		ChangesDropped: counter("changes_dropped_total", "Changes that were not newer than what was known."),
		Refused:        counters("connections_refused_total", "Streams refused, by reason.", "reason"),
		Disconnected:   counters("disconnected_total", "Streams closed by the server, by reason.", "reason"),
		Subscriptions:  gauge("subscriptions", "Subscriptions of all viewers."),
		Watched:        gauge("watched_users", "Users whom viewers of this node watch."),
		Queued:         counter("queued_total", "Changes queued for viewers."),
		Collapsed:      counter("collapsed_total", "Queued changes that a newer one replaced because the queue was full."),
		Reread:         counter("rereads_total", "Times all watched users were read again, as after each connection of the bus."),
		Resynced:       counter("resynced_total", "Corrections queued for viewers after a read."),
		Compared:       counter("compared_total", "Watched users compared with the current status view."),
		Lost:           counter("lost_total", "Changes that a read had and no channel brought in time; the users were read again."),
		Revoked:        counter("revoked_total", "Subscriptions ended because the viewer may not watch the user any more."),
		deliveriesSent: counter("deliveries_sent_total", "Recipients to whose connections a delivery was sent."),
		Errors:         counters("errors_sent_total", "Error messages sent to viewers, by code.", "code"),
		Connections: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stillhere_fanout_connections", Help: "Open streams, by kind.",
		}, []string{"kind"}),
		ReadSeconds: register.NewHistogram(prometheus.HistogramOpts{
			Name: "stillhere_fanout_snapshot_read_seconds", Help: "Time to read the snapshot of a request.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}),
	}
}

// CountDeliveries counts recipients to whose connections a delivery was sent.
func (m *Metrics) CountDeliveries(recipients int) {
	m.deliveriesSent.Add(float64(recipients))
}

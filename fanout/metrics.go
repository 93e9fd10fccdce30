package fanout

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of the live stream. One per process: publish, redisbus and live share it.
type Metrics struct {
	Published  prometheus.Counter // changes put on a channel
	Superseded prometheus.Counter // not put there: Redis had one as new or newer
	Withheld   prometheus.Counter // transitions of hidden users

	BusConnected   prometheus.Gauge   // 1 while the subscribing connection stands
	BusLost        prometheus.Counter // times it was lost
	BusUnreadable  prometheus.Counter // messages on a channel that could not be read
	Channels       prometheus.Gauge   // channels this node is subscribed to
	ChangesTaken   prometheus.Counter // changes that came by the channels
	ChangesDropped prometheus.Counter // of those: not newer than what was known

	Connections    *prometheus.GaugeVec   // by kind: websocket, events, embedded
	Refused        *prometheus.CounterVec // by reason
	Disconnected   *prometheus.CounterVec // by reason, where the server decided
	Subscriptions  prometheus.Gauge
	Watched        prometheus.Gauge       // users somebody on this node watches
	Queued         prometheus.Counter     // changes put in the queue of a viewer
	Collapsed      prometheus.Counter     // of those: left out for a newer one
	Resynced       prometheus.Counter     // corrections put in the queue of a viewer
	Compared       prometheus.Counter     // watched users compared with what can be read
	Lost           prometheus.Counter     // changes that a reading knew of and no channel brought
	Revoked        prometheus.Counter     // subscriptions ended because they are not allowed any more
	DeliveriesSent prometheus.Counter     // recipients to whose connections a delivery was sent
	deliveriesTold prometheus.Counter     // the same under its old name
	Errors         *prometheus.CounterVec // error messages sent, by code
	ReadSeconds    prometheus.Histogram   // reading a snapshot
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "stillhere_fanout_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stillhere_fanout_" + name, Help: help})
		r.MustRegister(g)
		return g
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_fanout_" + name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	m := &Metrics{
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
		Resynced:       counter("resynced_total", "Corrections queued for viewers after a read."),
		Compared:       counter("compared_total", "Watched users compared with the current status view."),
		Lost:           counter("lost_total", "Changes that a read had and no channel brought in time; the users were read again."),
		Revoked:        counter("revoked_total", "Subscriptions ended because the viewer may not watch the user any more."),
		DeliveriesSent: counter("deliveries_sent_total", "Recipients to whose connections a delivery was sent."),
		deliveriesTold: counter("told_total", "Old name of stillhere_fanout_deliveries_sent_total; the next release removes it."),
		Errors:         counters("errors_sent_total", "Error messages sent to viewers, by code.", "code"),
		Connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stillhere_fanout_connections", Help: "Open streams, by kind.",
		}, []string{"kind"}),
		ReadSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stillhere_fanout_snapshot_read_seconds", Help: "Time to read the snapshot of a request.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}),
	}
	r.MustRegister(m.Connections, m.ReadSeconds)
	return m
}

// CountDeliveries counts recipients to whose connections a delivery was sent.
func (m *Metrics) CountDeliveries(recipients int) {
	m.DeliveriesSent.Add(float64(recipients))
	m.deliveriesTold.Add(float64(recipients))
}

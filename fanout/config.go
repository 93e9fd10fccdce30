package fanout

import (
	"errors"
	"fmt"
	"time"
)

// Config are the settings of the room. DefaultConfig has the defaults, given here
// in brackets.
type Config struct {
	// HeartbeatInterval [15s] is what the hello tells clients to beat at.
	HeartbeatInterval time.Duration
	// MaxSubscriptions [500] is how many users one connection may watch.
	MaxSubscriptions int
	// SubscribeRate [100] is how many users a second one connection may ask to watch,
	// those it watches already included: each is looked up. Four times MaxSubscriptions
	// at once, after a time of less.
	SubscribeRate float64
	// MaxConnections [100,000] is how many streams this process serves; further ones
	// are answered 503.
	MaxConnections int
	// MaxMessageBytes [64 KiB] bounds a message from a viewer. A longer one is
	// answered with an error; one 16 times as long closes the connection.
	MaxMessageBytes int64
	// QueueLength [1,000] is how many changes may wait for one viewer before they
	// collapse to the newest of each user. More than MaxSubscriptions.
	QueueLength int
	// SlowFor [1m] is how long a viewer's queue may stay collapsed before the viewer
	// is disconnected.
	SlowFor time.Duration
	// WriteTimeout [10s] bounds writing one message to a viewer.
	WriteTimeout time.Duration
	// PingInterval [30s] is how often a silent viewer is asked for a sign of life;
	// without an answer within WriteTimeout the connection is closed.
	PingInterval time.Duration
	// IdleTimeout [5m] closes a connection that watches nobody; noticed at a ping.
	IdleTimeout time.Duration
	// ReadTimeout [5s] bounds the work for one subscribe: waiting for the channels
	// (at most half of it) and reading the snapshot.
	ReadTimeout time.Duration
	// RefreshInterval [2s] is how often users whose state is stale or incomplete are
	// read again.
	RefreshInterval time.Duration
	// CompareInterval [10m] is how often each watched user is compared with what can be
	// read, spread evenly: pub/sub promises nothing, and a failover may lose a change
	// while the connection stands.
	CompareInterval time.Duration
	// LostAfter [3s] is how long a change that a reading knew of may be on its way by the
	// channel; after it the change counts as lost and the user is read again.
	LostAfter time.Duration
	// RecheckInterval [5m] is how often it is asked again whether a viewer may watch those
	// whom it watches, where that is asked at all; jittered.
	RecheckInterval time.Duration
	// ReconnectSpread [10s] is the time over which the viewers of a node that stops
	// are asked to come back.
	ReconnectSpread time.Duration
	// DrainTimeout [15s] bounds closing all viewers when the node stops.
	DrainTimeout time.Duration
	// HiddenOffline [false]: a hidden user is shown as offline since the hide, not as null.
	HiddenOffline bool
	// Origins are patterns (path.Match), such as https://*.example.com, of the origins of
	// web pages that may open a WebSocket, besides those of the server's own host.
	Origins []string

	// RecentFor [1m] is how long Redis keeps a change beside the channel. It covers
	// the time by which the projector of the current status may be later than the
	// publisher without its partition counting as stale (5 s), many times over.
	RecentFor time.Duration
	// HiddenFor [1h] is the same for the change by which a user hid: a late projector
	// must not show who hid.
	HiddenFor time.Duration
}

// DefaultConfig has the documented defaults.
func DefaultConfig() Config {
	return Config{
		HeartbeatInterval: 15 * time.Second,
		MaxSubscriptions:  500,
		SubscribeRate:     100,
		MaxConnections:    100_000,
		MaxMessageBytes:   64 << 10,
		QueueLength:       1_000,
		SlowFor:           time.Minute,
		WriteTimeout:      10 * time.Second,
		PingInterval:      30 * time.Second,
		IdleTimeout:       5 * time.Minute,
		ReadTimeout:       5 * time.Second,
		RefreshInterval:   2 * time.Second,
		CompareInterval:   10 * time.Minute,
		LostAfter:         3 * time.Second,
		RecheckInterval:   5 * time.Minute,
		ReconnectSpread:   10 * time.Second,
		DrainTimeout:      15 * time.Second,
		RecentFor:         time.Minute,
		HiddenFor:         time.Hour,
	}
}

// Validate reports everything that is wrong, joined.
func (c Config) Validate() error {
	var faults []error
	positive := func(name string, ok bool) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s must be positive", name))
		}
	}
	positive("heartbeat_interval", c.HeartbeatInterval > 0)
	positive("max_subscriptions", c.MaxSubscriptions > 0)
	positive("subscribe_rate", c.SubscribeRate > 0)
	positive("max_connections", c.MaxConnections > 0)
	positive("max_message_bytes", c.MaxMessageBytes > 0)
	positive("slow_for", c.SlowFor > 0)
	positive("write_timeout", c.WriteTimeout > 0)
	positive("ping_interval", c.PingInterval > 0)
	positive("idle_timeout", c.IdleTimeout > 0)
	positive("read_timeout", c.ReadTimeout > 0)
	positive("refresh_interval", c.RefreshInterval > 0)
	positive("compare_interval", c.CompareInterval >= time.Second)
	positive("lost_after", c.LostAfter > 0)
	positive("recheck_interval", c.RecheckInterval > 0)
	positive("reconnect_spread", c.ReconnectSpread > 0)
	positive("drain_timeout", c.DrainTimeout > 0)
	positive("recent_for", c.RecentFor >= time.Millisecond)
	positive("hidden_for", c.HiddenFor >= time.Millisecond)
	if c.QueueLength <= c.MaxSubscriptions {
		faults = append(faults, fmt.Errorf("queue_length (%d) must be more than max_subscriptions (%d)", c.QueueLength, c.MaxSubscriptions))
	}
	return errors.Join(faults...)
}

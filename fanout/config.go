package fanout

import (
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// Config are the settings of the live stream, with the defaults in brackets.
type Config struct {
	// HeartbeatInterval [15s] is the interval of heartbeats that the hello asks clients for.
	HeartbeatInterval time.Duration
	// HeartbeatJitter is the jitter of the hello; 0: a tenth of the interval.
	HeartbeatJitter time.Duration
	// TenantSchedules are those of the hello for tenants with policies of their own.
	TenantSchedules map[string]schemas.Schedule
	// MaxSubscriptions [500] is how many users one connection may watch.
	MaxSubscriptions int
	// SubscribeRate [100] is how many users a second one connection may ask to watch, including those
	// it watches already, because each is read. A burst may have four times MaxSubscriptions.
	SubscribeRate float64
	// MaxConnections [100,000] is how many streams this process serves. Further ones get 503.
	MaxConnections int
	// MaxMessageBytes [64 KiB, RequestBytes(MaxSubscriptions)] bounds a message from a viewer. A longer one is
	// answered with an error; one 16 times as long closes the connection.
	MaxMessageBytes int64
	// QueueLength [1,000, twice MaxSubscriptions] is how many changes may wait for one viewer before they
	// collapse to the newest of each user. More than MaxSubscriptions.
	QueueLength int
	// SlowFor [1m] is how long a viewer's queue may stay collapsed before the viewer
	// is disconnected.
	SlowFor time.Duration
	// WriteTimeout [10s] bounds writing one message to a viewer.
	WriteTimeout time.Duration
	// PingInterval [30s] is after how long a silent viewer gets a ping. Without an answer within
	// WriteTimeout the connection is closed.
	PingInterval time.Duration
	// IdleTimeout [5m] closes a connection that watches nobody, at the next ping.
	IdleTimeout time.Duration
	// ReadTimeout [5s] bounds the work for one subscribe: waiting for the channels
	// (at most half of it) and reading the snapshot.
	ReadTimeout time.Duration
	// RefreshInterval [2s] is how often users whose state is stale or incomplete are
	// read again.
	RefreshInterval time.Duration
	// CompareInterval [10m] is how often each watched user is compared with the current status, spread
	// evenly: pub/sub guarantees nothing, and a failover may lose a change while the connection is up.
	CompareInterval time.Duration
	// LostAfter [3s] is how much later than a read the channel may bring a change. After that the
	// change counts as lost and the user is read again.
	LostAfter time.Duration
	// RecheckInterval [5m] is how often MayWatch is asked again about the users a viewer watches;
	// jittered.
	RecheckInterval time.Duration
	// ReconnectSpread [10s] is the time over which the viewers of a stopping node reconnect.
	ReconnectSpread time.Duration
	// DrainTimeout [15s] bounds closing all viewers when the node stops.
	DrainTimeout time.Duration
	// HiddenOffline [false]: a hidden user is shown as offline since the hide, not as null.
	HiddenOffline bool
	// Origins are patterns (path.Match), such as https://*.example.com, of the origins of
	// web pages that may open a WebSocket, besides those of the server's own host.
	Origins []string

	// RecentFor [1m] is how long Redis stores a change. It is many times as long as the projector of
	// the current status may be later than the publisher without its partition being stale (5 s).
	RecentFor time.Duration
	// HiddenFor [1h] is the same for a hide: a late projector must not show a hidden user.
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

// RequestBytes is the length of a request that names so many users, with the longest ids and a cursor.
func RequestBytes(users int) int64 { return int64(users)*(24+11) + 1024 }

// AllowSubscriptions sets MaxSubscriptions, and makes room for them in messages and queues.
func (c *Config) AllowSubscriptions(most int) {
	c.MaxSubscriptions = most
	c.MaxMessageBytes = max(c.MaxMessageBytes, RequestBytes(most))
	c.QueueLength = max(c.QueueLength, 2*most)
}

// Validate returns all faults, joined.
func (c Config) Validate() error {
	var all faults.List
	for _, setting := range []struct {
		name     string
		positive bool
	}{
		{"heartbeat_interval", c.HeartbeatInterval > 0}, {"max_subscriptions", c.MaxSubscriptions > 0},
		{"subscribe_rate", c.SubscribeRate > 0}, {"max_connections", c.MaxConnections > 0},
		{"max_message_bytes", c.MaxMessageBytes > 0}, {"slow_for", c.SlowFor > 0}, {"write_timeout", c.WriteTimeout > 0},
		{"ping_interval", c.PingInterval > 0}, {"idle_timeout", c.IdleTimeout > 0}, {"read_timeout", c.ReadTimeout > 0},
		{"refresh_interval", c.RefreshInterval > 0}, {"compare_interval", c.CompareInterval >= time.Second},
		{"lost_after", c.LostAfter > 0}, {"recheck_interval", c.RecheckInterval > 0},
		{"reconnect_spread", c.ReconnectSpread > 0}, {"drain_timeout", c.DrainTimeout > 0},
		{"recent_for", c.RecentFor >= time.Millisecond}, {"hidden_for", c.HiddenFor >= time.Millisecond},
	} {
		all.If(!setting.positive, "%s must be positive", setting.name)
	}
	all.If(c.QueueLength <= c.MaxSubscriptions, "queue_length (%d) must be more than max_subscriptions (%d)", c.QueueLength, c.MaxSubscriptions)
	return all.Err()
}

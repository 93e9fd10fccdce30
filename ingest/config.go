package ingest

import (
	"fmt"
	"path"
	"time"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// Config is the configuration of the gates. Start from Defaults.
type Config struct {
	// Config makes this process the gateway of its sockets. The detector's policy sets
	// HeartbeatInterval, which the hello has, and ForgetAfter, after which a partition into which a
	// named gateway sends nothing is forgotten.
	beat.Config
	// Users are those of the pipeline: the zero value is --ids int.
	Users identity.Users
	// AllowedOrigins are web origins, besides the server's own, whose scripts may send requests:
	// "https://app.example.com", or patterns of path.Match such as "https://*.example.com".
	// Requests without an Origin header do not come from a script of another site and are always
	// allowed.
	AllowedOrigins []string

	HTTP    HTTPConfig
	Sockets SocketConfig
}

// HTTPConfig bounds the HTTP endpoints.
type HTTPConfig struct {
	MaxBody  int // bytes of a request body, before and after decompression
	MaxBeats int // beats in a request
	// MaxDevices bounds the devices in a request with a user's own token (max_devices of the
	// detector's policy). It does not apply to gateways.
	MaxDevices int
	// PolicyOf is the policy of a tenant's users: whether they may hide and be invisible.
	PolicyOf    func(tenant string) schemas.Policy
	MaxRequests int // heartbeats requests that have arrived, at a time; more get 503
	// MaxVisibility is how many changes of visibility are processed at a time; more get 503.
	// Heartbeats do not take their slots, so overload never keeps a user from hiding.
	MaxVisibility int
	// MaxArriving is how many incomplete bodies one user or gateway may have at a time; more get
	// 429. It applies only with authentication.
	MaxArriving int
	MaxWaiting  int           // beats that wait for Kafka; more get 503
	MaxGateways int           // named gateways that are kept alive; more get 503
	BodyTimeout time.Duration // how long a client may take to send a body
	// Linger is how long beats wait to share a frame while earlier ones are in flight; otherwise
	// they are sent at once.
	Linger time.Duration
	// GatewayQuiet is how long after a named gateway's last request it still gets alive frames. It is longer where
	// HeartbeatInterval is more than one and a half times as long.
	GatewayQuiet time.Duration
}

// SocketConfig bounds the WebSocket endpoint.
type SocketConfig struct {
	MaxSockets       int           // open at a time; more get 503
	MaxMessage       int           // bytes of a message; longer ones are answered with an error
	MaxSubscriptions int           // which the hello states
	HeartbeatJitter  time.Duration // of the hello; 0: a tenth of the interval
	WriteTimeout     time.Duration // a client that does not take a message for so long is cut off
	PingInterval     time.Duration // how often the server pings
	// IdleTimeout is for how long all beats of a socket may be over its tenant's quota before it is closed; a third of it
	// bounds PingInterval.
	IdleTimeout time.Duration
	// Tenants are the paces of the sockets of tenants with policies of their own.
	Tenants map[string]Pace
	// DrainSpread is the period over which clients spread their reconnects when this process
	// stops. Less than the detector's reconnect_window.
	DrainSpread time.Duration
	// DrainTimeout is how long closing all sockets may take on stop.
	DrainTimeout time.Duration
}

// Defaults is a Config with every default. GatewayID and Partitions have none.
func Defaults() Config {
	return Config{
		Config: beat.Config{}.WithDefaults(),
		HTTP: HTTPConfig{
			MaxBody: 1_000_000, MaxBeats: 10_000, MaxDevices: 32, MaxRequests: 1024, MaxVisibility: 256,
			MaxArriving: 64, MaxWaiting: 1_000_000, MaxGateways: 1000, BodyTimeout: 10 * time.Second,
			Linger: 5 * time.Millisecond, GatewayQuiet: 10 * time.Second,
			PolicyOf: func(string) schemas.Policy { return schemas.DefaultPolicy() },
		},
		Sockets: SocketConfig{
			MaxSockets: 100_000, MaxMessage: 32 << 10, MaxSubscriptions: 500,
			WriteTimeout: 10 * time.Second, PingInterval: 15 * time.Second, IdleTimeout: 45 * time.Second,
			DrainSpread: 10 * time.Second, DrainTimeout: 10 * time.Second,
		},
	}
}

// Validate reports all faults, joined.
func (c *Config) Validate() error {
	var all faults.List
	all.Add(c.Config.Validate())
	all.Field(c.Sockets.IdleTimeout < 2*c.HeartbeatInterval, "ingest.sockets.idle_timeout",
		"must be at least two heartbeat intervals")
	all.Field(c.HTTP.Linger < 0, "ingest.http.linger", "must not be negative")
	all.Field(c.Sockets.DrainSpread < 0, "ingest.sockets.drain_spread", "must not be negative")
	for field, value := range map[string]time.Duration{
		"heartbeat_interval": c.HeartbeatInterval, "append_timeout": c.AppendTimeout, "alive_interval": c.AliveInterval,
		"forget_after": c.ForgetAfter, "http.body_timeout": c.HTTP.BodyTimeout,
		"http.gateway_quiet": c.HTTP.GatewayQuiet, "sockets.write_timeout": c.Sockets.WriteTimeout,
		"sockets.ping_interval": c.Sockets.PingInterval, "sockets.drain_timeout": c.Sockets.DrainTimeout,
	} {
		all.Field(value <= 0, "ingest."+field, "must be positive")
	}
	for field, value := range map[string]int{
		"http.max_body": c.HTTP.MaxBody, "http.max_beats": c.HTTP.MaxBeats, "http.max_devices": c.HTTP.MaxDevices,
		"http.max_requests": c.HTTP.MaxRequests, "http.max_visibility": c.HTTP.MaxVisibility,
		"http.max_arriving": c.HTTP.MaxArriving, "http.max_waiting": c.HTTP.MaxWaiting,
		"http.max_gateways": c.HTTP.MaxGateways, "sockets.max_sockets": c.Sockets.MaxSockets,
		"sockets.max_message": c.Sockets.MaxMessage, "sockets.max_subscriptions": c.Sockets.MaxSubscriptions,
	} {
		all.Field(value < 1, "ingest."+field, "must be positive")
	}
	all.Field(c.HTTP.MaxWaiting < c.HTTP.MaxBeats, "ingest.http.max_waiting", "must be at least http.max_beats")
	for i, origin := range c.AllowedOrigins {
		_, err := path.Match(origin, "")
		all.Field(err != nil, fmt.Sprintf("ingest.allowed_origins[%d]", i), "is not a pattern of path.Match")
	}
	return all.Err()
}

// Pace is what the policy of a tenant asks of its sockets.
type Pace struct {
	Schedule    schemas.Schedule // of the hello
	IdleTimeout time.Duration
}

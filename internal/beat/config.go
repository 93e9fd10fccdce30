package beat

import (
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/stillhere/stillhere/schemas"
)

// Config says who the gateway is and how often it sends. A zero field stands for
// its default.
type Config struct {
	// GatewayID is unique among running gateways, at most 128 bytes, and the same
	// after a restart. No default.
	GatewayID schemas.GatewayID
	// Partitions is how many the heartbeats topic has. No default.
	Partitions int32
	// HeartbeatInterval is how often a device beats [15s].
	HeartbeatInterval time.Duration
	// FlushInterval is how often repeats are sent [1s]. Each one comes up to a
	// fifth earlier, so that gateways do not fall into step.
	FlushInterval time.Duration
	// AliveInterval is after how long without a frame a partition gets an empty
	// one [1.5s]. The detector expects one every 2 s.
	AliveInterval time.Duration
	// ActiveAfterIdle: a device that is touched after it was not for this long is
	// reported at once [1m]. Not more than the detector's idle_after.
	ActiveAfterIdle time.Duration
	// ForgetAfter is how long a silent device is remembered [1m, at least four
	// heartbeat intervals]. Not less than the detector's online_ttl +
	// offline_debounce.
	ForgetAfter time.Duration
	// AppendTimeout is how long Kafka has to take a frame [5s]. What it did not
	// take by then goes back and is sent again, with its true age.
	AppendTimeout time.Duration
	// MaxDevices bounds the devices that are remembered [1,000,000]. It is shared
	// out to the partitions, each of which gets half as much again; beyond that a
	// new device is refused with ErrFull.
	MaxDevices int
	// Metrics may be nil.
	Metrics *Metrics
	// Log is told when the gateway has drained; nil: nothing is.
	Log *slog.Logger
}

// aliveCheck is how often it is looked whether an empty frame is due.
const aliveCheck = 250 * time.Millisecond

func (c Config) withDefaults() Config {
	set(&c.HeartbeatInterval, 15*time.Second)
	set(&c.FlushInterval, time.Second)
	set(&c.AliveInterval, 1500*time.Millisecond)
	set(&c.ActiveAfterIdle, time.Minute)
	set(&c.ForgetAfter, max(time.Minute, 4*c.HeartbeatInterval))
	set(&c.AppendTimeout, 5*time.Second)
	if c.MaxDevices == 0 {
		c.MaxDevices = 1_000_000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	return c
}

func set(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// Validate reports all faults, joined. Zero fields that have a default are none.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(wrong bool, field, reason string) {
		if wrong {
			faults = append(faults, schemas.Invalid("gateway."+field, reason))
		}
	}
	fault(c.GatewayID == "", "gateway_id", "must be set")
	fault(len(c.GatewayID) > schemas.MaxGatewayID, "gateway_id", "must have at most 128 bytes")
	fault(!utf8.ValidString(string(c.GatewayID)), "gateway_id", "must be UTF-8")
	fault(c.Partitions < 1, "partitions", "must be positive")
	fault(c.HeartbeatInterval < 0, "heartbeat_interval", "must be positive")
	fault(c.FlushInterval < 0, "flush_interval", "must be positive")
	fault(c.ActiveAfterIdle < 0, "active_after_idle", "must be positive")
	fault(c.AppendTimeout < 0, "append_timeout", "must be positive")
	fault(c.AliveInterval < 0 || c.AliveInterval+aliveCheck > 2*time.Second, "alive_interval",
		"must be positive and at most 1.75s, because the detector expects a frame every 2s")
	fault(c.ForgetAfter < 2*c.HeartbeatInterval, "forget_after", "must be at least two heartbeat intervals")
	fault(c.MaxDevices < 1, "max_devices", "must be positive")
	return errors.Join(faults...)
}

package beat

import (
	"cmp"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// Config configures a gateway. A zero field stands for its default, which is in brackets.
type Config struct {
	// GatewayID is unique among running gateways, at most 128 bytes, and the same after a restart.
	// No default.
	GatewayID schemas.GatewayID
	// Partitions is the partition count of the heartbeats topic. No default.
	Partitions int32
	// HeartbeatInterval is how often a device beats [15s].
	HeartbeatInterval time.Duration
	// Intervals are the heartbeat intervals of tenants that have their own. It is never changed.
	Intervals map[string]time.Duration
	// FlushInterval is how often repeated reports are sent [1s]. Each flush comes up to a fifth
	// earlier, so that gateways do not fall into step.
	FlushInterval time.Duration
	// AliveInterval is how often the gateway says that it is there [1.5s], while it has devices. The detector expects
	// it every 2 s.
	AliveInterval time.Duration
	// ReportAgainAfter is how long the gateway may not have been heard before open connections are reported again
	// [five alive intervals; see Under for those of a policy].
	ReportAgainAfter time.Duration
	// ActiveAfterIdle: a device that is touched for the first time in so long is reported at once
	// [1m]. At most the detector's idle_after.
	ActiveAfterIdle time.Duration
	// ForgetAfter is how long a silent device is remembered [1m, at least four heartbeat
	// intervals]. At least the detector's online_ttl + offline_debounce: otherwise a gateway counts
	// as lost while its last device is only silent.
	ForgetAfter time.Duration
	// NameAfter is after how long a silence of a device the name of its user is written again, with --ids text
	// [the shortest time after which a policy lets a silent user go, at most ForgetAfter].
	NameAfter time.Duration
	// NameAlways says that each row has the name of its user, as a key that is bound to tenants demands.
	NameAlways bool
	// AppendTimeout is how long Kafka has to acknowledge a frame [5s]. The reports of a frame that
	// is not acknowledged by then are sent again, with their true ages.
	AppendTimeout time.Duration
	// MaxDevices bounds the devices that are remembered [1,000,000]. Each partition gets an equal
	// share and half as much again; beyond that a new device is refused with ErrFull.
	MaxDevices int
	// Metrics may be nil.
	Metrics *Metrics
	// Log gets a message when the gateway has drained; nil: none.
	Log *slog.Logger
}

// aliveCheck is how often the buffer looks whether an empty frame is due.
const aliveCheck = 250 * time.Millisecond

// leastGap is more than lies between two frames of a gateway: the detector takes no shorter gap for silence, whatever
// the policy.
const leastGap = 2500 * time.Millisecond

// leaseTwice is more than the detector takes to write a lease, and to write it again if the first is lost: a second
// until it looks, and three seconds more.
const leaseTwice = 5 * time.Second

// WithDefaults returns c with its defaults for times and bounds.
func (c Config) WithDefaults() Config {
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, 15*time.Second)
	c.FlushInterval = cmp.Or(c.FlushInterval, time.Second)
	c.AliveInterval = cmp.Or(c.AliveInterval, 1500*time.Millisecond)
	c.ReportAgainAfter = cmp.Or(c.ReportAgainAfter, 5*c.AliveInterval)
	c.ActiveAfterIdle = cmp.Or(c.ActiveAfterIdle, time.Minute)
	c.ForgetAfter = cmp.Or(c.ForgetAfter, max(time.Minute, 4*c.HeartbeatInterval))
	c.AppendTimeout = cmp.Or(c.AppendTimeout, 5*time.Second)
	c.MaxDevices = cmp.Or(c.MaxDevices, 1_000_000)
	return c
}

// Under returns c with the times that the policy determines, and the policies of tenants, where they are
// zero. All devices have a HeartbeatInterval that is set already.
func (c Config) Under(p schemas.Policy, tenants map[string]*schemas.Policy) Config {
	all := []schemas.Policy{p}
	c.Intervals = nil
	for tenant, t := range tenants {
		own := p.For(t)
		if all = append(all, own); c.HeartbeatInterval == 0 {
			if c.Intervals == nil {
				c.Intervals = map[string]time.Duration{}
			}
			c.Intervals[tenant] = own.HeartbeatInterval
		}
	}
	fixed := c.HeartbeatInterval
	c.HeartbeatInterval = cmp.Or(fixed, p.HeartbeatInterval)
	forgetAfter, activeAfterIdle := time.Minute, time.Minute
	nameAfter := p.OnlineTTL + p.OfflineDebounce
	for _, p := range all {
		// Shorter, and the detector would count a gateway as lost in a partition whose last device is
		// merely silent.
		forgetAfter = max(forgetAfter, p.OnlineTTL+p.OfflineDebounce, 4*cmp.Or(fixed, p.HeartbeatInterval))
		// Longer, and a user who comes back would have no name, and so no tenant.
		nameAfter = min(nameAfter, p.OnlineTTL+p.OfflineDebounce)
		if p.IdleAfter > 0 {
			activeAfterIdle = min(activeAfterIdle, p.IdleAfter)
		}
	}
	// Early enough for the detector to read that the gateway is heard again, and to write a lease twice.
	gap := min(p.GatewaySilence*3/4+p.ReconnectWindow/2, p.GatewaySilence+p.ReconnectWindow-leaseTwice)
	c.ReportAgainAfter = cmp.Or(c.ReportAgainAfter, max(leastGap, gap))
	c.ForgetAfter = cmp.Or(c.ForgetAfter, forgetAfter)
	c.NameAfter = cmp.Or(c.NameAfter, nameAfter)
	c.ActiveAfterIdle = cmp.Or(c.ActiveAfterIdle, activeAfterIdle)
	return c
}

// Validate reports all faults, joined. Zero fields that have a default are none.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var all faults.List
	all.Field(c.GatewayID == "", "gateway.gateway_id", "must be set")
	all.Field(len(c.GatewayID) > schemas.MaxGatewayID, "gateway.gateway_id", "must have at most 128 bytes")
	all.Field(!utf8.ValidString(string(c.GatewayID)), "gateway.gateway_id", "must be UTF-8")
	all.Field(c.Partitions < 1, "gateway.partitions", "must be positive")
	all.Field(c.HeartbeatInterval < 0, "gateway.heartbeat_interval", "must be positive")
	all.Field(c.FlushInterval < 0, "gateway.flush_interval", "must be positive")
	all.Field(c.ActiveAfterIdle < 0, "gateway.active_after_idle", "must be positive")
	all.Field(c.AppendTimeout < 0, "gateway.append_timeout", "must be positive")
	all.Field(c.AliveInterval < 0 || c.AliveInterval+aliveCheck > 2*time.Second, "gateway.alive_interval",
		"must be positive and at most 1.75s, because the detector expects a frame every 2s")
	all.Field(c.ReportAgainAfter < 0, "gateway.report_again_after", "must be positive")
	all.Field(c.ForgetAfter < 2*c.HeartbeatInterval, "gateway.forget_after", "must be at least two heartbeat intervals")
	all.Field(c.MaxDevices < 1, "gateway.max_devices", "must be positive")
	return all.Err()
}

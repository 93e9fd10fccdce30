package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// Policy holds the settings by which the detector decides when a user is present. It is in force
// in a partition of the heartbeats from the record that brings it; see policy.proto. All
// durations are whole milliseconds. detector/DESIGN.md defines each setting exactly.
type Policy struct {
	// HeartbeatInterval is how often a connected device beats.
	HeartbeatInterval time.Duration
	// HeartbeatJitter is by how much the time between two beats is shorter at most; 0: a tenth of
	// HeartbeatInterval. The detector does not use it: it is here so that all hellos agree.
	HeartbeatJitter time.Duration
	// OnlineTTL is how long a device counts as live after a beat.
	OnlineTTL time.Duration
	// OfflineDebounce is extra silence before a device's leaving is published.
	OfflineDebounce time.Duration
	// AwayTTL is how long after its last beat a silent user is away before it is
	// offline; 0 means straight to offline.
	AwayTTL time.Duration
	// IdleAfter is how long a person must not have touched a live device for it
	// to count as away; 0 means never.
	IdleAfter time.Duration
	// ByeDebounce is an extra wait after the bye of the last device.
	ByeDebounce time.Duration
	// AllowedLateness is how long a limit waits for beats on their way.
	AllowedLateness time.Duration
	// GatewaySilence is how long a gateway may not be heard, in the topic gateways or a partition, before it is lost
	// there; at least 2.5 s where the topic says that it is there.
	GatewaySilence time.Duration
	// ReconnectWindow is the extra time that devices of a lost gateway get.
	ReconnectWindow time.Duration
	// CohortRate is how many devices of lost gateways may expire per second on average in one partition,
	// CohortTotalRate in all partitions together.
	CohortRate, CohortTotalRate int
	// AnnounceDevices publishes a change in the set of device kinds of a user who
	// stays in the same state.
	AnnounceDevices bool
	// MaxDevices bounds the devices of one user through one gateway, and twice as many in all; one more evicts
	// the device with the oldest beat.
	MaxDevices int
	// FlapBurst is how many changes of one user are published at once, FlapInterval
	// the time until one more is. A burst of 0 publishes every change.
	FlapBurst    int
	FlapInterval time.Duration
	// BreakerPercent is the share of the present devices above which gateways that fall silent
	// stop presence time, BreakerLimit how long it stands still at most. 0 never stops it.
	BreakerPercent int
	BreakerLimit   time.Duration
	// ForbidHiding and ForbidInvisible keep users from hiding and from being invisible; who does already stays so.
	// CoarseLastSeen keeps others from learning more than coarsely when a user was last here.
	ForbidHiding, ForbidInvisible, CoarseLastSeen bool
}

// DefaultPolicy is the policy of the design.
func DefaultPolicy() Policy {
	return Policy{
		HeartbeatInterval: 15 * time.Second,
		OnlineTTL:         30 * time.Second,
		OfflineDebounce:   15 * time.Second,
		AwayTTL:           5 * time.Minute,
		IdleAfter:         5 * time.Minute,
		AllowedLateness:   250 * time.Millisecond,
		GatewaySilence:    10 * time.Second,
		ReconnectWindow:   30 * time.Second,
		CohortRate:        2000,
		CohortTotalRate:   100_000,
		AnnounceDevices:   true,
		MaxDevices:        32,
		FlapBurst:         20,
		FlapInterval:      2 * time.Second,
		BreakerPercent:    30,
		BreakerLimit:      10 * time.Minute,
	}
}

const (
	// longestSetting is the greatest duration of a policy.
	longestSetting = 7 * 24 * time.Hour
	// maxDevicesOfUser bounds Policy.MaxDevices: every beat looks at all of a user's devices.
	maxDevicesOfUser = 128
	maxFlapBurst     = 1000
	// LongestWait bounds how long changes of a user wait because it changes too often. A status
	// with a longer wait is invalid.
	LongestWait = 24 * time.Hour
)

// setting is one setting of a policy: a duration, a number or a switch, and its field on the wire.
type setting struct {
	name     string
	duration *time.Duration
	millis   *int64
	positive bool // the duration must not be 0
	number   *int
	wire     *uint32
	min, max int // of the number
	flag, on *bool
}

// settings lists the settings of p, in the order in which users see them, with their fields of m.
func (p *Policy) settings(m *pb.Policy) []setting {
	duration := func(name string, value *time.Duration, millis *int64, positive bool) setting {
		return setting{name: name, duration: value, millis: millis, positive: positive}
	}
	number := func(name string, value *int, wire *uint32, min, max int) setting {
		return setting{name: name, number: value, wire: wire, min: min, max: max}
	}
	return []setting{
		duration("heartbeat_interval", &p.HeartbeatInterval, &m.HeartbeatIntervalMs, true),
		duration("heartbeat_jitter", &p.HeartbeatJitter, &m.HeartbeatJitterMs, false),
		duration("online_ttl", &p.OnlineTTL, &m.OnlineTtlMs, true),
		duration("offline_debounce", &p.OfflineDebounce, &m.OfflineDebounceMs, false),
		duration("away_ttl", &p.AwayTTL, &m.AwayTtlMs, false),
		duration("idle_after", &p.IdleAfter, &m.IdleAfterMs, false),
		duration("bye_debounce", &p.ByeDebounce, &m.ByeDebounceMs, false),
		duration("allowed_lateness", &p.AllowedLateness, &m.AllowedLatenessMs, false),
		duration("gateway_silence", &p.GatewaySilence, &m.GatewaySilenceMs, true),
		duration("reconnect_window", &p.ReconnectWindow, &m.ReconnectWindowMs, false),
		number("cohort_rate", &p.CohortRate, &m.CohortRate, 1, 1_000_000),
		number("cohort_total_rate", &p.CohortTotalRate, &m.CohortTotalRate, 1, 1_000_000_000),
		{name: "announce_devices", flag: &p.AnnounceDevices, on: &m.AnnounceDevices},
		number("max_devices", &p.MaxDevices, &m.MaxDevices, 1, maxDevicesOfUser),
		number("flap_burst", &p.FlapBurst, &m.FlapBurst, 0, maxFlapBurst),
		duration("flap_interval", &p.FlapInterval, &m.FlapIntervalMs, p.FlapBurst != 0),
		number("breaker_percent", &p.BreakerPercent, &m.BreakerPercent, 0, 100),
		duration("breaker_limit", &p.BreakerLimit, &m.BreakerLimitMs, p.BreakerPercent != 0),
		{name: "forbid_hiding", flag: &p.ForbidHiding, on: &m.ForbidHiding},
		{name: "forbid_invisible", flag: &p.ForbidInvisible, on: &m.ForbidInvisible},
		{name: "coarse_last_seen", flag: &p.CoarseLastSeen, on: &m.CoarseLastSeen},
	}
}

// Validate reports all faults of the policy, joined; each names its setting.
func (p Policy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, s := range p.settings(new(pb.Policy)) {
		switch {
		case s.number != nil && (*s.number < s.min || *s.number > s.max):
			fault("%s: is %d, must be between %d and %d", s.name, *s.number, s.min, s.max)
		case s.duration == nil:
		case s.positive && *s.duration <= 0:
			fault("%s: is %v, must be positive", s.name, *s.duration)
		case *s.duration < 0:
			fault("%s: is %v, must be 0 or more", s.name, *s.duration)
		case *s.duration > longestSetting:
			fault("%s: is %v, must be at most %v", s.name, *s.duration, longestSetting)
		case *s.duration%time.Millisecond != 0:
			fault("%s: is %v, must be whole milliseconds", s.name, *s.duration)
		}
	}
	if p.OnlineTTL < 2*p.HeartbeatInterval {
		fault("online_ttl: is %v, must be at least two heartbeat intervals (%v), or one lost beat takes a user offline",
			p.OnlineTTL, 2*p.HeartbeatInterval)
	}
	if p.HeartbeatJitter >= max(p.HeartbeatInterval, 1) {
		fault("heartbeat_jitter: is %v, must be shorter than heartbeat_interval (%v)", p.HeartbeatJitter, p.HeartbeatInterval)
	}
	if p.AwayTTL != 0 && p.AwayTTL < p.OnlineTTL {
		fault("away_ttl: is %v, must be 0 or at least online_ttl (%v)", p.AwayTTL, p.OnlineTTL)
	}
	inRange := p.FlapBurst > 0 && p.FlapBurst <= maxFlapBurst && p.FlapInterval <= longestSetting
	if paid := time.Duration(p.FlapBurst+1) * p.FlapInterval; inRange && paid > LongestWait {
		fault("flap_burst, flap_interval: %d changes and one more take %v, must be at most %v",
			p.FlapBurst, paid, LongestWait)
	}
	if p.AllowedLateness > 5*time.Second {
		fault("allowed_lateness: is %v, must be at most 5s", p.AllowedLateness)
	}
	return errors.Join(faults...)
}

// Setting is a setting of a policy as text.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Settings lists the settings by the names that users know.
func (p Policy) Settings() []Setting {
	var all []Setting
	for _, s := range p.settings(new(pb.Policy)) {
		text := ""
		switch {
		case s.duration != nil:
			text = s.duration.String()
		case s.number != nil:
			text = strconv.Itoa(*s.number)
		default:
			text = strconv.FormatBool(*s.flag)
		}
		all = append(all, Setting{s.name, text})
	}
	return all
}

// ID names the policy: equal policies have equal ids, on any machine and in any later
// version of this program.
func (p Policy) ID() string {
	m := p.message()
	m.Schema = 0
	sum := sha256.Sum256(encode(m))
	return hex.EncodeToString(sum[:6])
}

func (p Policy) message() *pb.Policy {
	m := &pb.Policy{Schema: messageVersion}
	for _, s := range p.settings(m) {
		switch {
		case s.duration != nil:
			*s.millis = s.duration.Milliseconds()
		case s.number != nil:
			*s.wire = uint32(*s.number)
		default:
			*s.on = *s.flag
		}
	}
	return m
}

// policyOf reads m. The error of an invalid policy is a *FieldError.
func policyOf(field string, m *pb.Policy) (Policy, error) {
	if m == nil {
		return Policy{}, Invalid(field, "is missing")
	}
	if err := supported(m.Schema); err != nil {
		return Policy{}, err
	}
	var p Policy
	for _, s := range p.settings(m) {
		switch {
		case s.duration != nil:
			// A time.Duration cannot hold every number: too long stays too long, negative negative.
			*s.duration = time.Duration(max(-1, min(*s.millis, longestSetting.Milliseconds()+1))) * time.Millisecond
		case s.number != nil:
			*s.number = int(*s.wire)
		default:
			*s.flag = *s.on
		}
	}
	if err := p.Validate(); err != nil {
		return Policy{}, Invalid(field, err.Error())
	}
	return p, nil
}

// AppendPolicy appends the frame by which policy comes into force in the partition it
// is written to. It must be valid.
func AppendPolicy(dst []byte, policy Policy) []byte {
	dst = appendVarint(dst, fieldVersion, FrameVersion)
	value := encode(policy.message())
	dst = appendColumn(dst, fieldPolicy, uint64(len(value)))
	return append(dst, value...)
}

// takePolicy reads the policy of a frame.
func (f *Frame) takePolicy(v []byte) error {
	var m pb.Policy
	if err := proto.Unmarshal(v, &m); err != nil {
		return notProtobuf()
	}
	policy, err := policyOf("policy", &m)
	if err != nil {
		return err
	}
	f.Policy = &policy
	return nil
}

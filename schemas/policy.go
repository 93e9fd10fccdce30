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

// Policy says when a person counts as here. It is in force in a partition of the
// heartbeats from the record that brings it; see policy.proto. All durations are
// whole milliseconds. What each setting means to the millisecond is in
// detector/DESIGN.md.
type Policy struct {
	// HeartbeatInterval is how often a connected device beats.
	HeartbeatInterval time.Duration
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
	// ByeDebounce is extra wait after the last device said bye.
	ByeDebounce time.Duration
	// AllowedLateness is how long a limit waits for beats on their way.
	AllowedLateness time.Duration
	// GatewaySilence is how long a gateway may send no frame to a partition
	// before it is lost.
	GatewaySilence time.Duration
	// ReconnectWindow is what the devices of a lost gateway get on top.
	ReconnectWindow time.Duration
	// CohortRate is how many devices of lost gateways one partition lets go in a
	// second, CohortTotalRate how many all partitions together do.
	CohortRate, CohortTotalRate int
	// AnnounceDevices publishes a change in the set of device kinds of a user who
	// stays in the same state.
	AnnounceDevices bool
	// MaxDevices is how many devices of one user are kept; one more evicts the one
	// that was heard longest ago.
	MaxDevices int
	// FlapBurst is how many changes of one user are published at once, FlapInterval
	// how long one more takes. A burst of 0 publishes every change.
	FlapBurst    int
	FlapInterval time.Duration
	// BreakerPercent is the share of the present devices that gateways which fell
	// silent may take along before presence time stands still, BreakerLimit how long
	// it stands still at most. A share of 0 never stops it.
	BreakerPercent int
	BreakerLimit   time.Duration
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
	// maxDevicesOfUser bounds Policy.MaxDevices: a report looks at all of them.
	maxDevicesOfUser = 128
	maxFlapBurst     = 1000
	// LongestWait is the longest for which changes of a user may wait because it changes too
	// often. A status that says more cannot be true.
	LongestWait = 24 * time.Hour
)

// Validate reports everything that is wrong with the policy, joined, each fault
// naming its setting.
func (p Policy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, d := range []struct {
		name     string
		value    time.Duration
		positive bool
	}{
		{"heartbeat_interval", p.HeartbeatInterval, true},
		{"online_ttl", p.OnlineTTL, true},
		{"offline_debounce", p.OfflineDebounce, false},
		{"away_ttl", p.AwayTTL, false},
		{"idle_after", p.IdleAfter, false},
		{"bye_debounce", p.ByeDebounce, false},
		{"allowed_lateness", p.AllowedLateness, false},
		{"gateway_silence", p.GatewaySilence, true},
		{"reconnect_window", p.ReconnectWindow, false},
		{"flap_interval", p.FlapInterval, p.FlapBurst != 0},
		{"breaker_limit", p.BreakerLimit, p.BreakerPercent != 0},
	} {
		switch {
		case d.value < 0 || d.positive && d.value == 0:
			fault("%s: is %v, must be %s", d.name, d.value, map[bool]string{true: "positive", false: "0 or more"}[d.positive])
		case d.value > longestSetting:
			fault("%s: is %v, must be at most %v", d.name, d.value, longestSetting)
		case d.value%time.Millisecond != 0:
			fault("%s: is %v, must be whole milliseconds", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name            string
		value, min, max int
	}{
		{"cohort_rate", p.CohortRate, 1, 1_000_000},
		{"cohort_total_rate", p.CohortTotalRate, 1, 1_000_000_000},
		{"max_devices", p.MaxDevices, 1, maxDevicesOfUser},
		{"flap_burst", p.FlapBurst, 0, maxFlapBurst},
		{"breaker_percent", p.BreakerPercent, 0, 100},
	} {
		if n.value < n.min || n.value > n.max {
			fault("%s: is %d, must be between %d and %d", n.name, n.value, n.min, n.max)
		}
	}
	if p.OnlineTTL < 2*p.HeartbeatInterval {
		fault("online_ttl: is %v, must be at least two heartbeat intervals (%v), or one lost beat takes a user offline", p.OnlineTTL, 2*p.HeartbeatInterval)
	}
	if p.AwayTTL != 0 && p.AwayTTL < p.OnlineTTL {
		fault("away_ttl: is %v, must be 0 or at least online_ttl (%v)", p.AwayTTL, p.OnlineTTL)
	}
	if paid := time.Duration(p.FlapBurst+1) * p.FlapInterval; p.FlapBurst > 0 && p.FlapBurst <= maxFlapBurst && p.FlapInterval <= longestSetting && paid > LongestWait {
		fault("flap_burst, flap_interval: %d changes and one more take %v, must be at most %v", p.FlapBurst, paid, LongestWait)
	}
	if p.AllowedLateness > 5*time.Second {
		fault("allowed_lateness: is %v, must be at most 5s", p.AllowedLateness)
	}
	return errors.Join(faults...)
}

// Setting is a setting of a policy in words.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Settings lists the settings by the names that the design gives them.
func (p Policy) Settings() []Setting {
	return []Setting{
		{"heartbeat_interval", p.HeartbeatInterval.String()}, {"online_ttl", p.OnlineTTL.String()}, {"offline_debounce", p.OfflineDebounce.String()},
		{"away_ttl", p.AwayTTL.String()}, {"idle_after", p.IdleAfter.String()}, {"bye_debounce", p.ByeDebounce.String()},
		{"allowed_lateness", p.AllowedLateness.String()}, {"gateway_silence", p.GatewaySilence.String()},
		{"reconnect_window", p.ReconnectWindow.String()}, {"cohort_rate", strconv.Itoa(p.CohortRate)},
		{"cohort_total_rate", strconv.Itoa(p.CohortTotalRate)}, {"announce_devices", strconv.FormatBool(p.AnnounceDevices)},
		{"max_devices", strconv.Itoa(p.MaxDevices)}, {"flap_burst", strconv.Itoa(p.FlapBurst)}, {"flap_interval", p.FlapInterval.String()},
		{"breaker_percent", strconv.Itoa(p.BreakerPercent)}, {"breaker_limit", p.BreakerLimit.String()},
	}
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
	ms := time.Duration.Milliseconds
	return &pb.Policy{
		Schema: messageVersion, HeartbeatIntervalMs: ms(p.HeartbeatInterval), OnlineTtlMs: ms(p.OnlineTTL),
		OfflineDebounceMs: ms(p.OfflineDebounce), AwayTtlMs: ms(p.AwayTTL), IdleAfterMs: ms(p.IdleAfter),
		ByeDebounceMs: ms(p.ByeDebounce), AllowedLatenessMs: ms(p.AllowedLateness), GatewaySilenceMs: ms(p.GatewaySilence),
		ReconnectWindowMs: ms(p.ReconnectWindow), CohortRate: uint32(p.CohortRate), CohortTotalRate: uint32(p.CohortTotalRate),
		AnnounceDevices: p.AnnounceDevices, MaxDevices: uint32(p.MaxDevices), FlapBurst: uint32(p.FlapBurst),
		FlapIntervalMs: ms(p.FlapInterval), BreakerPercent: uint32(p.BreakerPercent), BreakerLimitMs: ms(p.BreakerLimit),
	}
}

// policyOf reads m. The error of one that is not valid is a *FieldError.
func policyOf(field string, m *pb.Policy) (Policy, error) {
	if m == nil {
		return Policy{}, Invalid(field, "is missing")
	}
	if err := supported(uint64(m.Schema)); err != nil {
		return Policy{}, err
	}
	ms := func(n int64) time.Duration {
		// Beyond what a Duration holds is as wrong as what is just too long.
		return time.Duration(max(-1, min(n, longestSetting.Milliseconds()+1))) * time.Millisecond
	}
	p := Policy{
		HeartbeatInterval: ms(m.HeartbeatIntervalMs), OnlineTTL: ms(m.OnlineTtlMs), OfflineDebounce: ms(m.OfflineDebounceMs),
		AwayTTL: ms(m.AwayTtlMs), IdleAfter: ms(m.IdleAfterMs), ByeDebounce: ms(m.ByeDebounceMs),
		AllowedLateness: ms(m.AllowedLatenessMs), GatewaySilence: ms(m.GatewaySilenceMs), ReconnectWindow: ms(m.ReconnectWindowMs),
		CohortRate: int(m.CohortRate), CohortTotalRate: int(m.CohortTotalRate), AnnounceDevices: m.AnnounceDevices,
		MaxDevices: int(m.MaxDevices), FlapBurst: int(m.FlapBurst), FlapInterval: ms(m.FlapIntervalMs),
		BreakerPercent: int(m.BreakerPercent), BreakerLimit: ms(m.BreakerLimitMs),
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

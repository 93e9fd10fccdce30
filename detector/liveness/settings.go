package liveness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Settings say when a person counts as here. All durations are whole
// milliseconds. What each means to the millisecond is in ../DESIGN.md.
type Settings struct {
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
	// CohortRate is how many devices of lost gateways are let go per second and
	// partition.
	CohortRate int
	// AnnounceDevices publishes a change in the set of device kinds of a user who
	// stays in the same state.
	AnnounceDevices bool
}

// Defaults are the settings of the design.
func Defaults() Settings {
	return Settings{
		HeartbeatInterval: 15 * time.Second,
		OnlineTTL:         30 * time.Second,
		OfflineDebounce:   15 * time.Second,
		AwayTTL:           5 * time.Minute,
		IdleAfter:         5 * time.Minute,
		AllowedLateness:   250 * time.Millisecond,
		GatewaySilence:    10 * time.Second,
		ReconnectWindow:   30 * time.Second,
		CohortRate:        2000,
		AnnounceDevices:   true,
	}
}

// longest is the greatest duration a setting may have: times are kept in 32 bits
// of milliseconds, relative to now.
const longest = 7 * 24 * time.Hour

// Validate reports everything that is wrong with the settings, joined, each
// fault naming its setting.
func (s Settings) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, d := range []struct {
		name     string
		value    time.Duration
		positive bool
	}{
		{"heartbeat_interval", s.HeartbeatInterval, true},
		{"online_ttl", s.OnlineTTL, true},
		{"offline_debounce", s.OfflineDebounce, false},
		{"away_ttl", s.AwayTTL, false},
		{"idle_after", s.IdleAfter, false},
		{"bye_debounce", s.ByeDebounce, false},
		{"allowed_lateness", s.AllowedLateness, false},
		{"gateway_silence", s.GatewaySilence, true},
		{"reconnect_window", s.ReconnectWindow, false},
	} {
		switch {
		case d.value < 0 || d.positive && d.value == 0:
			fault("%s: is %v, must be %s", d.name, d.value, map[bool]string{true: "positive", false: "0 or more"}[d.positive])
		case d.value > longest:
			fault("%s: is %v, must be at most %v", d.name, d.value, longest)
		case d.value%time.Millisecond != 0:
			fault("%s: is %v, must be whole milliseconds", d.name, d.value)
		}
	}
	if s.OnlineTTL < 2*s.HeartbeatInterval {
		fault("online_ttl: is %v, must be at least two heartbeat intervals (%v), or one lost beat takes a user offline", s.OnlineTTL, 2*s.HeartbeatInterval)
	}
	if s.AwayTTL != 0 && s.AwayTTL < s.OnlineTTL {
		fault("away_ttl: is %v, must be 0 or at least online_ttl (%v)", s.AwayTTL, s.OnlineTTL)
	}
	if s.AllowedLateness > 5*time.Second {
		fault("allowed_lateness: is %v, must be at most 5s", s.AllowedLateness)
	}
	if s.CohortRate < 1 || s.CohortRate > 1_000_000 {
		fault("cohort_rate: is %d, must be between 1 and 1000000", s.CohortRate)
	}
	return errors.Join(faults...)
}

// PolicyID names the settings: equal settings have equal ids.
func (s Settings) PolicyID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", s))
	return hex.EncodeToString(sum[:6])
}

package policy

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Preset is a set of timings under a name.
type Preset struct {
	Name string
	schemas.Policy
}

// Presets are the timings that people come with. Each sets PresetSettings and leaves the other
// settings as they are.
//
// chat is for lists of contacts in which somebody is there or is not: offline after three lost
// heartbeats and half a minute to reconnect, and never away. social is the default, by name. calm is
// for many phones: few heartbeats, and few changes.
var Presets = []Preset{
	{"chat", schemas.Policy{HeartbeatInterval: 5 * time.Second, OnlineTTL: 15 * time.Second,
		OfflineDebounce: 30 * time.Second}},
	{"social", schemas.Policy{HeartbeatInterval: 15 * time.Second, OnlineTTL: 30 * time.Second,
		OfflineDebounce: 15 * time.Second, AwayTTL: 5 * time.Minute, IdleAfter: 5 * time.Minute}},
	{"calm", schemas.Policy{HeartbeatInterval: 30 * time.Second, OnlineTTL: 90 * time.Second,
		OfflineDebounce: time.Minute, AwayTTL: 15 * time.Minute, IdleAfter: 10 * time.Minute,
		ByeDebounce: 10 * time.Second}},
}

// PresetSettings names the settings that a preset sets.
var PresetSettings = []string{"heartbeat_interval", "online_ttl", "offline_debounce", "away_ttl", "idle_after", "bye_debounce"}

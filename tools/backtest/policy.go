package backtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/policy"
)

// Policy is settings under a name.
type Policy struct {
	Name     string
	Settings liveness.Settings
}

// ParsePolicy reads settings in YAML: those of the design under their names, e.g.
// "online_ttl: 45s"; what is left out is as by default. file gives the name.
func ParsePolicy(file string, text []byte) (Policy, error) {
	var given struct {
		HeartbeatInterval *duration `yaml:"heartbeat_interval"`
		OnlineTTL         *duration `yaml:"online_ttl"`
		OfflineDebounce   *duration `yaml:"offline_debounce"`
		AwayTTL           *duration `yaml:"away_ttl"`
		IdleAfter         *duration `yaml:"idle_after"`
		ByeDebounce       *duration `yaml:"bye_debounce"`
		AllowedLateness   *duration `yaml:"allowed_lateness"`
		GatewaySilence    *duration `yaml:"gateway_silence"`
		ReconnectWindow   *duration `yaml:"reconnect_window"`
		CohortRate        *int      `yaml:"cohort_rate"`
		CohortTotalRate   *int      `yaml:"cohort_total_rate"`
		AnnounceDevices   *bool     `yaml:"announce_devices"`
		MaxDevices        *int      `yaml:"max_devices"`
		FlapBurst         *int      `yaml:"flap_burst"`
		FlapInterval      *duration `yaml:"flap_interval"`
		BreakerPercent    *int      `yaml:"breaker_percent"`
		BreakerLimit      *duration `yaml:"breaker_limit"`
	}
	p := Policy{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), Settings: liveness.Defaults()}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	if len(document.Content) > 0 {
		if err := checkNames(document.Content[0], reflect.TypeOf(given)); err != nil {
			return p, fmt.Errorf("%s: %w", file, err)
		}
		if err := document.Decode(&given); err != nil {
			return p, fmt.Errorf("%s: %w", file, err)
		}
	}
	p.Settings = policy.Change{
		HeartbeatInterval: (*time.Duration)(given.HeartbeatInterval), OnlineTTL: (*time.Duration)(given.OnlineTTL),
		OfflineDebounce: (*time.Duration)(given.OfflineDebounce), AwayTTL: (*time.Duration)(given.AwayTTL), IdleAfter: (*time.Duration)(given.IdleAfter),
		ByeDebounce: (*time.Duration)(given.ByeDebounce), AllowedLateness: (*time.Duration)(given.AllowedLateness),
		GatewaySilence: (*time.Duration)(given.GatewaySilence), ReconnectWindow: (*time.Duration)(given.ReconnectWindow),
		CohortRate: given.CohortRate, CohortTotalRate: given.CohortTotalRate, AnnounceDevices: given.AnnounceDevices, MaxDevices: given.MaxDevices,
		FlapBurst: given.FlapBurst, FlapInterval: (*time.Duration)(given.FlapInterval), BreakerPercent: given.BreakerPercent,
		BreakerLimit: (*time.Duration)(given.BreakerLimit),
	}.To(p.Settings)
	if err := p.Settings.Validate(); err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// checkNames refuses what is not one of the fields' names, and writes those with dashes,
// as flags and configuration files have them, with underscores.
func checkNames(settings *yaml.Node, fields reflect.Type) error {
	if settings.Kind != yaml.MappingNode {
		return errors.New("must be a list of names and values, such as \"online_ttl: 45s\"")
	}
	known := make([]string, fields.NumField())
	for i := range known {
		known[i] = fields.Field(i).Tag.Get("yaml")
	}
	var faults []error
	for i := 0; i < len(settings.Content); i += 2 {
		name := settings.Content[i]
		name.Value = strings.ReplaceAll(name.Value, "-", "_")
		if !slices.Contains(known, name.Value) {
			faults = append(faults, fmt.Errorf("line %d: %s is no setting of a policy: these are %s", name.Line, name.Value, strings.Join(known, ", ")))
		}
	}
	return errors.Join(faults...)
}

// duration is a time.Duration as people write it.
type duration time.Duration

// UnmarshalYAML reads "45s" and, as for a setting that is off, 0.
func (d *duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if err != nil {
		return fmt.Errorf("line %d: %q is no duration: it must be like 45s, 5m or 0", node.Line, node.Value)
	}
	*d = duration(parsed)
	return nil
}

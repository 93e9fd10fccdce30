package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
)

// logFlags say what is logged and how.
type logFlags struct {
	LogLevel  slog.Level `help:"What to log on standard error: debug, info, warn or error." default:"info" group:"Logs:"`
	LogFormat string     `help:"Log format: ${enum}." enum:"json,text" default:"json" group:"Logs:"`
}

func (f logFlags) logger() *slog.Logger { return f.loggerAt(f.LogLevel) }

// loggerAt is a logger whose level may change.
func (f logFlags) loggerAt(level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: withUnits}
	if f.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}

// withUnits writes spans of time with their unit, which JSON would not.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// policyFlags are the settings of the policy.
type policyFlags struct {
	Preset            string        `name:"policy" help:"Named timings: ${enum}. ${presets}. Other policy flags override single settings of it." enum:"none,chat,social,calm" default:"none"`
	HeartbeatInterval time.Duration `help:"How often devices send heartbeats; the server sends it to clients. Default: half of --online-ttl, at most 15s."`
	HeartbeatJitter   time.Duration `help:"By how much the time between two heartbeats of a device is shorter at most, so that devices do not send together; 0: a tenth of the interval." default:"0s"`
	OnlineTTL         time.Duration `name:"online-ttl" help:"How long a device is live after a heartbeat." default:"30s"`
	OfflineDebounce   time.Duration `help:"Extra silence before the end of online is published." default:"15s"`
	AwayTTL           time.Duration `name:"away-ttl" help:"A silent user is away until this long after the last heartbeat, then offline; 0: offline at once." default:"5m"`
	IdleAfter         time.Duration `help:"A live device that nobody touched for this long counts as away; 0: never." default:"5m"`
	ByeDebounce       time.Duration `help:"Extra wait after the last device said bye." default:"0s"`
	AllowedLateness   time.Duration `help:"How long a limit waits for delayed heartbeats." default:"250ms"`
	GatewaySilence    time.Duration `help:"A gateway that was silent for this long counts as lost." default:"10s"`
	ReconnectWindow   time.Duration `help:"Extra time for the devices of a lost gateway to reconnect." default:"30s"`
	CohortRate        int           `help:"Devices of lost gateways that may go offline per second and partition." default:"2000"`
	CohortTotalRate   int           `help:"Devices of lost gateways that may go offline per second in all partitions together." default:"100000"`
	AnnounceDevices   bool          `help:"Publish changes in the set of device kinds." default:"true" negatable:""`
	MaxDevices        int           `help:"Maximum devices of one user through one gateway, twice as many in all; one more evicts the device with the oldest heartbeat." default:"32"`
	FlapBurst         int           `help:"Changes of one user that may be published at once; after that, one every --flap-interval. 0: no limit." default:"20"`
	FlapInterval      time.Duration `help:"Time between two changes of a user who has used up --flap-burst." default:"2s"`
	BreakerPercent    int           `help:"Percentage of the present devices on silent gateways above which presence time stops. 0: never stop." default:"30"`
	BreakerLimit      time.Duration `help:"Longest time for which presence time stops." default:"10m"`
}

func (f policyFlags) settings() liveness.Settings {
	s := liveness.Defaults()
	to, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(f)
	for i := range from.NumField() { // both have the same names, but for Preset
		if field := to.FieldByName(from.Type().Field(i).Name); field.IsValid() {
			field.Set(from.Field(i))
		}
	}
	if f.HeartbeatInterval == 0 {
		s.HeartbeatInterval = policy.Interval(f.OnlineTTL)
	}
	return s
}

// asked names the settings that the operator gave on the command line, in the environment or in
// the file, and those of the preset.
func (f policyFlags) asked(parsed *kong.Context, file *configFile) (names []string) {
	for _, flag := range settingsOf(parsed.Selected()) {
		if flag.Group.Title == policyGroup && flag.Name != presetFlag && origin(parsed, flag, file) != byDefault {
			names = append(names, strings.ReplaceAll(flag.Name, "-", "_"))
		}
	}
	return names
}

// kafkaFlags say where Kafka is.
type kafkaFlags struct {
	Kafka app.Kafka `embed:"" group:"Kafka:"`
}

// cluster checks the flags and converts them.
func (f kafkaFlags) cluster() (kafka.Config, error) { return kafka.Settings(f.Kafka).Config() }

// openReader opens a reader of the topics that logs errors only.
func (f kafkaFlags) openReader() (*kafka.Reader, error) {
	cluster, err := f.cluster()
	if err != nil {
		return nil, err
	}
	return kafka.NewReader(cluster, errorsOnly())
}

// errorsOnly is the log of commands that end by themselves.
func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// printJSON prints a value on standard output.
func printJSON(value any) error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// instanceOf is the name of this process; empty stands for the host's name.
func instanceOf(flag string) string {
	if flag == "" {
		return app.Defaults().Instance
	}
	return flag
}

package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"

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

// policyFlag asks for a policy.
type policyFlag struct {
	Asked askedPolicy `name:"policy" help:"The policy of a new pipeline: a preset, settings NAME=VALUE, or a preset and settings that override it, such as chat,away_ttl=2m. ${presets}. The settings: stillhere policy set --help." placeholder:"PRESET,NAME=VALUE,..." group:"Policy:"`
}

func (f policyFlag) settings() liveness.Settings { return f.Asked.To(liveness.Defaults()) }

// askedPolicy is a policy as it was written.
type askedPolicy struct {
	policy.Change
	text string
}

// UnmarshalText reads what the command line, the environment or the file has.
func (a *askedPolicy) UnmarshalText(text []byte) (err error) {
	if *a = (askedPolicy{text: string(text)}); a.text != "" {
		a.Change, err = policy.Parse(strings.Split(a.text, ",")...)
	}
	return err
}

// String is what was written.
func (a askedPolicy) String() string { return a.text }

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

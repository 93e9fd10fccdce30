package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// settingLine returns the line of a setting in what config check prints, without the padding.
func settingLine(out, name string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, name+": ") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return ""
}

func TestASettingGivenByNameGoesBeforeThatOfThePreset(t *testing.T) {
	t.Setenv("STILLHERE_IDLE_AFTER", "7m")
	code, out, errs := stillhere(t, "policy: chat\naway-ttl: 20m\npostgres: postgres://u@h/db\n",
		"config", "check", "--policy", "calm", "--bye-debounce", "1s", "--kafka-brokers", "a:1")
	if code != 0 {
		t.Fatal(errs)
	}
	for name, want := range map[string]string{
		"policy":             "policy: calm # command line",
		"heartbeat-interval": "heartbeat-interval: 30s # policy calm",
		"online-ttl":         "online-ttl: 1m30s # policy calm",
		"bye-debounce":       "bye-debounce: 1s # command line",
		"idle-after":         "idle-after: 7m0s # STILLHERE_IDLE_AFTER",
		"max-devices":        "max-devices: 32 # default",
	} {
		if got := settingLine(out, name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := settingLine(out, "away-ttl"); !strings.HasPrefix(got, "away-ttl: 20m0s # /") || !strings.HasSuffix(got, ":2") {
		t.Errorf("away-ttl is not that of the file: %q", got)
	}
}

func TestThePresetsIntervalGoesWithItsTimeToLive(t *testing.T) {
	t.Parallel()
	const pg = "postgres: postgres://u@h/db\n"
	if code, out, errs := stillhere(t, pg, "config", "check", "--policy", "chat", "--online-ttl", "8s"); code != 0 ||
		!strings.Contains(out, "# a device sends a heartbeat every 4s;") {
		t.Errorf("%s\n%s", out, errs)
	}
	if code, _, errs := stillhere(t, pg, "config", "check", "--policy", "chat", "--heartbeat-interval", "9s"); code == 0 ||
		!strings.Contains(errs, "--online-ttl: is 15s, must be at least two heartbeat intervals") {
		t.Errorf("got %d %s", code, errs)
	}
}

func TestConfigCheckPrintsTheTimelineAlthoughOtherSettingsAreMissing(t *testing.T) {
	t.Parallel()
	code, out, errs := stillhere(t, "", "config", "check", "--policy", "chat")
	if code == 0 || !strings.Contains(errs, "postgres: a URL is needed") || strings.Contains(out, "are valid") ||
		!strings.Contains(out, "#   t+45s    offline") {
		t.Errorf("got %d %s\n%s", code, errs, out)
	}
}

func TestAPresetThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "policy: loud\n"} {
		args := []string{"config", "check"}
		if file == "" {
			args = append(args, "--policy", "loud")
		}
		if code, _, errs := stillhere(t, file, args...); code == 0 || !strings.Contains(errs, "--policy must be one of") {
			t.Errorf("file %q: %d %s", file, code, errs)
		}
	}
}

func TestHelpKnowsEveryPresetAndEachIsAPolicy(t *testing.T) {
	t.Parallel()
	_, out, _ := stillhere(t, "", "detector", "--help")
	help := strings.Join(strings.Fields(out), " ")
	for _, p := range policy.Presets {
		change, ok := policy.PresetOf(p.Name)
		if !ok || !strings.Contains(help, p.Name+": a heartbeat every "+policy.Short(p.HeartbeatInterval)) {
			t.Errorf("the help does not explain %s", p.Name)
		}
		if err := change.To(schemas.DefaultPolicy()).Validate(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func TestConfigCheckPrintsWhatALastHeartbeatLeadsTo(t *testing.T) {
	t.Parallel()
	for preset, want := range map[string][]string{
		"none":   {"t+0s online", "t+45s away", "t+5m offline", "after the bye of the last device: offline at once"},
		"social": {"t+0s online", "t+45s away", "t+5m offline", "nobody has touched for 5m: away"},
		"chat":   {"t+0s online", "t+15s online", "t+45s offline"},
		"calm":   {"t+2m30s away", "t+15m offline", "offline 10s later"},
	} {
		code, out, errs := stillhere(t, "postgres: postgres://u@h/db\n", "config", "check", "--policy", preset)
		words := strings.Join(strings.Fields(out), " ")
		missing := func(text string) bool { return !strings.Contains(words, text) }
		if i := slices.IndexFunc(want, missing); code != 0 || i >= 0 {
			t.Errorf("%s: %s\nlacks %q\n%s", preset, out[strings.Index(out, "# these"):], want[max(i, 0)], errs)
		}
		if preset == "chat" && strings.Contains(out[strings.Index(out, "# these"):], "away") {
			t.Errorf("chat knows away:\n%s", out)
		}
	}
}

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

func TestConfigCheckPrintsTheTimelineAlthoughOtherSettingsAreMissing(t *testing.T) {
	t.Parallel()
	code, out, errs := stillhere(t, "", "config", "check", "--policy", "chat")
	if code == 0 || !strings.Contains(errs, "postgres: a URL is needed") || strings.Contains(out, "are valid") ||
		!strings.Contains(out, "#   t+45s    offline") {
		t.Errorf("got %d %s\n%s", code, errs, out)
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
		"default": {"t+0s online", "t+45s away", "t+5m offline", "after the bye of the last device: offline at once"},
		"social":  {"t+0s online", "t+45s away", "t+5m offline", "nobody has touched for 5m: away"},
		"chat":    {"t+0s online", "t+15s online", "t+45s offline"},
		"calm":    {"t+2m30s away", "t+15m offline", "offline 10s later"},
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

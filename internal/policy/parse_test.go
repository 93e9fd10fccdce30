package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestSettingsThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"online_tll=30s":              "online_tll is no setting of a policy",
		"online_ttl=soon":             `online_ttl: "soon" is no duration`,
		"idle_after=20":               "is no duration",
		"idle_after=2m,idle-after=3m": "idle_after is there twice",
		"max_devices=":                `max_devices: "" is no whole number`,
		"announce_devices=yes":        `announce_devices: "yes" is no switch`,
		"loud":                        `"loud" is neither a preset nor NAME=VALUE: presets are default, chat, social, calm`,
		"loud,max_devices=many":       `"many" is no whole number`,
		"":                            `"" is neither a preset`,
	} {
		if _, err := Parse(strings.Split(text, ",")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestASettingGivenByNameOverridesThePreset(t *testing.T) {
	t.Parallel()
	base := schemas.DefaultPolicy()
	base.MaxDevices, base.AwayTTL = 7, 7*time.Minute
	for text, change := range map[string]func(*schemas.Policy){
		"": func(*schemas.Policy) {},
		"idle-after=0,announce-devices=false,online-ttl=10s": func(p *schemas.Policy) {
			p.IdleAfter, p.AnnounceDevices, p.OnlineTTL, p.HeartbeatInterval = 0, false, 10*time.Second, 5*time.Second
		},
		"bye_debounce=1s,calm": func(p *schemas.Policy) { *p = calm(*p); p.ByeDebounce = time.Second },
		// The interval of the preset goes with its time to live.
		"calm,online_ttl=8s": func(p *schemas.Policy) {
			*p = calm(*p)
			p.OnlineTTL, p.HeartbeatInterval = 8*time.Second, 4*time.Second
		},
		"calm,online_ttl=8s,heartbeat_interval=3s": func(p *schemas.Policy) {
			*p = calm(*p)
			p.OnlineTTL, p.HeartbeatInterval = 8*time.Second, 3*time.Second
		},
		"default,max_devices=9":                      func(p *schemas.Policy) { *p = schemas.DefaultPolicy(); p.MaxDevices = 9 },
		"away_ttl=2m,max_devices=9,flap_interval=1s": func(p *schemas.Policy) { p.AwayTTL, p.MaxDevices, p.FlapInterval = 2*time.Minute, 9, time.Second },
	} {
		var words []string
		if text != "" {
			words = strings.Split(text, ",")
		}
		want := base
		change(&want)
		asked, err := Parse(words...)
		if got := asked.To(base); err != nil || got != want {
			t.Errorf("%q gives %+v, want %+v (%v)", text, got, want, err)
		}
	}
}

func calm(p schemas.Policy) schemas.Policy {
	preset, _ := PresetOf("calm")
	return preset.To(p)
}

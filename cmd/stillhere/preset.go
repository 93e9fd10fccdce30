package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// policyGroup is the group of the flags of policyFlags, and presetFlag the one that names a preset.
const (
	policyGroup = "Policy:"
	presetFlag  = "policy"
)

// presetHelp says what each preset leads to.
func presetHelp() string {
	var all []string
	for _, p := range policy.Presets {
		text := fmt.Sprintf("%s: a heartbeat every %s", p.Name, policy.Short(p.HeartbeatInterval))
		for _, step := range policy.Timeline(p.Policy) {
			if step.State != schemas.Online {
				text += fmt.Sprintf(", %s %s after the last", schemas.StateWord(step.State), policy.Short(step.After))
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// presetResolver gives the flags of the policy the values of the preset that is named. Flags, the
// environment and the file go before it.
type presetResolver struct{ file *configFile }

// Validate has nothing to refuse.
func (*presetResolver) Validate(*kong.Application) error { return nil }

// Resolve gives a flag that is not on the command line its value.
func (r *presetResolver) Resolve(parsed *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if _, value := presetValue(parsed, flag, r.file); value != "" {
		return value, nil
	}
	return nil, nil
}

// presetValue returns the preset that is named and its value of the flag; "" if it has none, or
// counts less than what the operator gave by the flag's own name. The preset's heartbeat interval
// belongs to its time to live: if another one is given, the interval follows that one.
func presetValue(parsed *kong.Context, flag *kong.Flag, file *configFile) (name, value string) {
	if flag.Group == nil || flag.Group.Title != policyGroup || flag.Name == presetFlag || given(parsed, flag, file) != byDefault {
		return "", ""
	}
	var ttl *kong.Flag
	for _, path := range parsed.Path {
		for _, other := range path.Flags {
			switch {
			case other.Group == nil || other.Group.Title != policyGroup:
			case other.Name == presetFlag:
				name = presetName(parsed, other, file)
			case other.Name == "online-ttl":
				ttl = other
			}
		}
	}
	preset, ok := policy.PresetOf(name)
	if !ok || flag.Name == "heartbeat-interval" && given(parsed, ttl, file) != byDefault {
		return name, ""
	}
	values := preset.Policy.Settings()
	for _, s := range preset.Names {
		for _, v := range values {
			if v.Name == s && strings.ReplaceAll(s, "_", "-") == flag.Name {
				return name, v.Value
			}
		}
	}
	return name, ""
}

// presetName returns the value of the flag that names the preset.
func presetName(parsed *kong.Context, flag *kong.Flag, file *configFile) string {
	for _, path := range parsed.Path {
		if path.Flag == flag && !path.Resolved {
			return fmt.Sprint(parsed.FlagValue(flag))
		}
	}
	for _, env := range flag.Envs {
		if name, set := os.LookupEnv(env); set {
			return name
		}
	}
	return file.values[flag.Name]
}

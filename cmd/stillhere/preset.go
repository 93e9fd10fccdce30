package main

import (
	"fmt"
	"strings"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// policyFlagName is the flag of policyFlag.
const policyFlagName = "policy"

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

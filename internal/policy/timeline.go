package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Step is what becomes of a user some time after the last heartbeat of the user's only device, if
// nothing is heard of it.
type Step struct {
	After time.Duration
	State schemas.State // what others see from then on
	Why   string
}

// Timeline returns what others see of a user whose device sends one last heartbeat and is silent
// from then on. The rules are those of detector/DESIGN.md, "A user".
func Timeline(p schemas.Policy) []Step {
	steps := []Step{{0, schemas.Online, "the last heartbeat"}}
	silent := p.OnlineTTL + p.OfflineDebounce
	if p.OfflineDebounce > 0 {
		steps = append(steps, Step{p.OnlineTTL, schemas.Online,
			fmt.Sprintf("the device is not live any more; a heartbeat within %s is in time, and nobody sees a change", Short(p.OfflineDebounce))})
	}
	if p.AwayTTL > silent {
		return append(steps, Step{silent, schemas.Away, "nothing was heard"}, Step{p.AwayTTL, schemas.Offline, "still nothing"})
	}
	return append(steps, Step{silent, schemas.Offline, "nothing was heard"})
}

// Describe returns the timeline of a policy in words, a line for each step and each exception.
func Describe(p schemas.Policy) []string {
	lines := []string{fmt.Sprintf("a device sends a heartbeat every %s; after its last one, at t, others see the user:", Short(p.HeartbeatInterval))}
	for _, s := range Timeline(p) {
		lines = append(lines, fmt.Sprintf("  t+%-6s %-8s %s", Short(s.After), schemas.StateWord(s.State), s.Why))
	}
	bye := "at once"
	if p.ByeDebounce > 0 {
		bye = Short(p.ByeDebounce) + " later"
	}
	lines = append(lines, "after the bye of the last device: offline "+bye)
	if p.IdleAfter > 0 {
		lines = append(lines, fmt.Sprintf("a device that sends heartbeats and that nobody has touched for %s: away", Short(p.IdleAfter)))
	}
	if p.ReconnectWindow > 0 {
		lines = append(lines, fmt.Sprintf("if the device's gateway was lost, the device has %s more to reconnect", Short(p.ReconnectWindow)))
	}
	n := TradeOffOf(p)
	return append(lines,
		fmt.Sprintf("lost heartbeats in a row without a published change: %d", n.Lost),
		fmt.Sprintf("a device that vanishes without a bye is shown for at most %s after its last heartbeat", Short(n.Lag)),
		fmt.Sprintf("heartbeats of a million devices: %d a second", n.PerMillion))
}

// TradeOff is what the timings of a policy tolerate, delay and cost. docs/timings.md compares some.
type TradeOff struct {
	Lost       int           // heartbeats in a row that may be lost without a published change
	Lag        time.Duration // from the last heartbeat of a vanished device to its published change, at most
	PerMillion int           // heartbeats a second of a million devices
}

// detectorTick is how often a detector looks at the time, at the default setting.
const detectorTick = 250 * time.Millisecond

// TradeOffOf computes it. The heartbeat that arrives at the limit is too late.
func TradeOffOf(p schemas.Policy) TradeOff {
	silent, every := p.OnlineTTL+p.OfflineDebounce, p.HeartbeatInterval
	return TradeOff{
		Lost:       max(0, int((silent-1)/every)-1),
		Lag:        silent + p.AllowedLateness + detectorTick,
		PerMillion: int((1_000_000*time.Second + every/2) / every),
	}
}

// Short is a duration without its zero parts: 5m, not 5m0s.
func Short(d time.Duration) string {
	text := d.String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}

package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// Rows of docs/timings.md: intervals with the proportions of the default policy, then the presets.
func TestTheTableOfTimingsSaysWhatConfigCheckPrints(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/timings.md"))(t)
	row := func(name string, p schemas.Policy) {
		n := TradeOffOf(p)
		want := fmt.Sprintf("| %s | %s | %s + %s | %d | %s | %d |", name, Short(p.HeartbeatInterval), Short(p.OnlineTTL), Short(p.OfflineDebounce), n.Lost, Short(n.Lag), n.PerMillion)
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/timings.md lacks the row %s", want)
		}
	}
	for _, every := range []time.Duration{3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second} {
		p := schemas.DefaultPolicy()
		p.HeartbeatInterval, p.OnlineTTL, p.OfflineDebounce = every, 2*every, every
		row("", p)
	}
	for _, p := range Presets {
		change, _ := PresetOf(p.Name)
		row("`"+p.Name+"`", change.To(schemas.DefaultPolicy()))
	}
}

func TestAHeartbeatAtTheLimitIsLost(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]int{20 * time.Second: 0, 20*time.Second + 1: 1, 30 * time.Second: 1, 31 * time.Second: 2} {
		p := schemas.DefaultPolicy()
		p.HeartbeatInterval, p.OnlineTTL, p.OfflineDebounce = 10*time.Second, ttl, 0
		if got := TradeOffOf(p).Lost; got != want {
			t.Errorf("ttl %s: %d lost heartbeats are tolerated, want %d", ttl, got, want)
		}
	}
}

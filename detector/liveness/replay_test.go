package liveness

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// The retention of the heartbeats is checked against LongestReplay, which is computed apart from
// the machine.
func TestThePolicyKnowsHowFarARestartReReads(t *testing.T) {
	t.Parallel()
	long := schemas.DefaultPolicy()
	long.ByeDebounce, long.GatewaySilence = time.Hour, time.Minute
	none := schemas.DefaultPolicy()
	none.BreakerPercent = 0
	for _, p := range []schemas.Policy{schemas.DefaultPolicy(), long, none} {
		m := New(p, 0, 1, 1, 1)
		longest := time.Duration(m.reach+m.foresight) * time.Millisecond
		if p.BreakerPercent != 0 {
			longest += p.BreakerLimit
		}
		if got := p.LongestReplay(); got != longest {
			t.Errorf("the policy says %s, the machine re-reads %s", got, longest)
		}
	}
}

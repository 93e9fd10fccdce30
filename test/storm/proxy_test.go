//go:build unix

package storm_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// Row 4: the broker has committed and the connection breaks before it can say so.
func TestALostAnswerToACommitChangesNothingOfApacheKafka(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	s := emptyStorm(t, testkit.Mode{})
	servers, proxy := testkit.BehindProxy(t, "--only", "kafka")
	s.connect(servers.Brokers()...)
	s.through = []string{proxy.Address}
	s.fates = s.kills(0)
	random := rand.New(rand.NewPCG(s.seed, 9))
	const losses = 40
	proxy.Losing(func() bool { return random.IntN(12) == 0 }) // under the proxy's lock
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		testkit.Within(3*time.Minute, func() bool { return proxy.Losses() >= losses })
		proxy.Losing(nil)
	}()
	s.until = ended
	s.blow(false)
	t.Logf("answers to commits lost: %d", proxy.Losses())
	if n := proxy.Losses(); n < losses {
		t.Errorf("only %d answers were lost, there must be %d", n, losses)
	}
}

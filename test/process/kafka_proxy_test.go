//go:build unix

package process_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Row 4: the broker has committed and the connection breaks before it can say so.
func TestALostAnswerToACommitChangesNothingOfApacheKafka(t *testing.T) {
	needKafka(t)
	needLong(t)
	s := emptyStorm(t)
	servers, proxy := behindProxy(t, "--only", "kafka")
	s.connect(servers.brokers()...)
	s.through = []string{proxy.address}
	s.fates = s.kills(0)
	random := rand.New(rand.NewPCG(s.seed, 9))
	const losses = 40
	proxy.losing(func() bool { return random.IntN(12) == 0 }) // under the proxy's lock
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		within(3*time.Minute, func() bool { return proxy.losses() >= losses })
		proxy.losing(nil)
	}()
	s.until = ended
	s.blow(false)
	t.Logf("answers to commits lost: %d", proxy.losses())
	if n := proxy.losses(); n < losses {
		t.Errorf("only %d answers were lost, there must be %d", n, losses)
	}
}

// proxied is a pipeline all of whose roles reach Kafka by way of a proxy.
func proxied(t *testing.T) (*pipeline, *proxy) {
	t.Helper()
	servers, proxy := behindProxy(t)
	return newPipelineAs(t, servers, func(string) []string { return []string{"STILLHERE_KAFKA_BROKERS=" + proxy.address} }), proxy
}

// unrest counts what a group notices of its members, in what the roles have logged.
func (p *pipeline) unrest() (restarts, rebalances int) {
	for _, r := range p.roles {
		log := r.err.String()
		restarts += strings.Count(log, "the session ended") + strings.Count(log, "the consumer failed; it reads on from the stored offsets after a pause")
		rebalances += strings.Count(log, `"msg":"partitions lost`) + strings.Count(log, `"msg":"partitions revoked"`)
	}
	return restarts, rebalances
}

// Row 18: a broker that answers late or is throttled is waited for.
func TestASlowBrokerCausesNoUnrestAndCostsNothing(t *testing.T) {
	needKafka(t)
	needLong(t)
	p, proxy := proxied(t)
	for _, slow := range []struct {
		what string
		late time.Duration
		rate int
		// restarts is how often sessions may start anew.
		restarts int
	}{{"every answer of the broker comes 2 s late, for 60 s", 2 * time.Second, 0, 1}, {"every connection carries 64 KB/s, for 60 s", 0, 64 << 10, 0}} {
		restarts, rebalances := p.unrest()
		p.sufferSlowness(slow.what, time.Minute, func() { proxy.slow(slow.late, slow.rate) }, func() { proxy.slow(0, 0) })
		// From the first commit that fails the detector learns how slow the broker is.
		if more, again := p.unrest(); more > restarts+slow.restarts || again > rebalances+slow.restarts {
			t.Errorf("%s: %d sessions started anew, partitions went %d times", slow.what, more-restarts, again-rebalances)
		}
	}
}

// Row 19: connections that carry nothing any more, and nobody says so.
func TestHalfOpenConnectionsAreFoundOfApacheKafka(t *testing.T) {
	needKafka(t)
	needLong(t)
	p, proxy := proxied(t)
	p.sufferSlowness("all connections to the broker half open", 0, proxy.swallow, func() {})
}

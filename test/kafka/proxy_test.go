//go:build unix

package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// proxied is a pipeline all of whose roles reach Kafka by way of a proxy.
func proxied(t *testing.T) (*pipeline, *testkit.Proxy) {
	t.Helper()
	servers, proxy := testkit.BehindProxy(t)
	return newPipelineIn(t, testkit.Mode{}, servers, func(string) []string { return []string{"STILLHERE_KAFKA_BROKERS=" + proxy.Address} }), proxy
}

// unrest counts what a group notices of its members, in what the roles have logged.
func (p *pipeline) unrest() (restarts, rebalances int) {
	for _, r := range p.roles {
		log := r.Err.String()
		restarts += strings.Count(log, "the session ended") + strings.Count(log, "the consumer failed; it reads on from the stored offsets after a pause")
		rebalances += strings.Count(log, `"msg":"partitions lost`) + strings.Count(log, `"msg":"partitions revoked"`)
	}
	return restarts, rebalances
}

// Row 18: a broker that answers late or is throttled is waited for.
func TestASlowBrokerCausesNoUnrestAndCostsNothing(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	p, proxy := proxied(t)
	for _, slow := range []struct {
		what string
		late time.Duration
		rate int
		// restarts is how often sessions may restart.
		restarts int
	}{{"every answer of the broker comes 2 s late, for 60 s", 2 * time.Second, 0, 1}, {"every connection carries 64 KB/s, for 60 s", 0, 64 << 10, 0}} {
		restarts, rebalances := p.unrest()
		p.sufferSlowness(slow.what, time.Minute, func() { proxy.Slow(slow.late, slow.rate) }, func() { proxy.Slow(0, 0) })
		// From the first commit that fails the detector learns how slow the broker is.
		if more, again := p.unrest(); more > restarts+slow.restarts || again > rebalances+slow.restarts {
			t.Errorf("%s: %d sessions started again, partitions went %d times", slow.what, more-restarts, again-rebalances)
		}
	}
}

// Row 19: connections that carry nothing any more, and nobody says so.
func TestHalfOpenConnectionsAreFoundOfApacheKafka(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	p, proxy := proxied(t)
	p.sufferSlowness("all connections to the broker half open", 0, proxy.Swallow, func() {})
}

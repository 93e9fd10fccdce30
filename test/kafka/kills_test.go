//go:build unix

package kafka_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// The only broker is killed again and again while users beat: each kill meets
// transactions in another place. Of every three, one or so leaves transactions
// hanging in Kafka (see internal/kafka/DESIGN.md), which no single kill shows.
func TestABrokerThatIsKilledAgainAndAgainCostsNothingThatWasAcknowledged(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("STILLHERE_BROKER_KILLS")); err == nil {
		kills = n
	}
	p := newPipeline(t)
	f := &traffic{pipeline: p}
	users := []schemas.UserID{}
	for user := range schemas.UserID(faultUsers) {
		users = append(users, user+1)
	}
	var slowest time.Duration
	for kill := range kills {
		quit, ended := make(chan struct{}), make(chan struct{})
		go func() { defer close(ended); f.flow(quit) }()
		<-time.After(2 * time.Second)
		p.servers.Do("kafka-1", "kill")
		<-time.After(3 * time.Second)
		p.servers.Do("kafka-1", "start")
		mended := time.Now()
		// One of every partition, or nearly.
		newcomers := []schemas.UserID{}
		for n := range schemas.UserID(8) {
			newcomers = append(newcomers, 1_000_000+schemas.UserID(kill)*8+n)
		}
		testkit.Until(t, "beats make users online again", 40*time.Second, func() bool {
			all := true
			for _, user := range newcomers {
				_ = p.Send(testkit.Beat{User: user, Device: 1})
				all = all && p.State(user) == "online"
			}
			return all
		})
		slowest = max(slowest, time.Since(mended))
		t.Logf("kill %d: works again %s after the broker does", kill+1, time.Since(mended).Round(10*time.Millisecond))
		users = append(users, newcomers...)
		close(quit)
		<-ended
	}
	p.stillUp()
	p.allReady(30 * time.Second)
	c := p.judge(users)
	f.allThere()
	t.Logf("| the only broker killed %d times | %d records in, %d beats acknowledged, %d requests refused | %d transitions | %d rows | %d doubled | works again %s after the servers do, at most |",
		kills, c.records, len(f.acknowledged), f.refused, c.transitions, c.rows, c.doubled, slowest.Round(10*time.Millisecond))
}

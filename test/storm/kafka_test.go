//go:build unix

package storm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// The storms on Apache Kafka, in which brokers are killed, frozen and stopped as
// well as detectors.
//
//	STILLHERE_STORM_BROKERS  how often that happens to a broker, in each mode [3; 12 in the long run]
//	STILLHERE_STORM_KILLS    how often a detector is killed meanwhile [6; 30]

func TestNoKillOfApacheKafkaChangesWhatIsCommitted(t *testing.T) {
	kafkaStorms(t, 1)
}

func TestNoFailOverOfApacheKafkaChangesWhatIsCommitted(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	kafkaStorms(t, 3)
}

// It takes half a minute, most of which Kafka needs to start.
func TestNoDeathAtASnapshotChangesWhatIsCommittedOnRealServers(t *testing.T) {
	testkit.NeedKafka(t)
	s := emptyStorm(t, testkit.Modes()[0])
	s.connect(testkit.StartServers(t, "--only", "kafka").Brokers()...)
	s.points = snapshotPoints
	s.fates = s.crashes(2)
	s.blow(false)
	s.diedAtAll(2)
}

// kafkaStorms are one after the other: each kills brokers, and needs all of the machine.
func kafkaStorms(t *testing.T, brokers int) {
	testkit.NeedKafka(t)
	for _, m := range testkit.Modes() {
		t.Run(m.Name, func(t *testing.T) { kafkaStorm(t, m, brokers) })
	}
}

func kafkaStorm(t *testing.T, m testkit.Mode, brokers int) {
	troubles, kills := int64(3), int64(6)
	if os.Getenv("STILLHERE_LONG") != "" {
		troubles, kills = 12, 30
	}
	s := emptyStorm(t, m)
	servers := testkit.StartServers(t, "--only", "kafka", "--brokers", fmt.Sprint(brokers))
	s.connect(servers.Brokers()...)
	s.fates = s.kills(half(testkit.Number(t, "STILLHERE_STORM_KILLS", kills)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.trouble(servers, brokers, int(testkit.Number(t, "STILLHERE_STORM_BROKERS", troubles)))
	}()
	s.until = ended
	s.blow(false)
	t.Logf("brokers: %d killed, %d frozen, %d stopped and started; transactions hung in %d partitions",
		s.counts["brokers killed"], s.counts["brokers frozen"], s.counts["brokers stopped"], s.counts["hanging transactions"])
}

// trouble does something to one broker after the other. A broker is back before
// the next is hit, and has had time to catch up where there are several.
func (s *storm) trouble(servers *testkit.Servers, brokers, times int) {
	random := rand.New(rand.NewPCG(s.seed, 7))
	calm := 2 * time.Second
	if brokers > 1 {
		calm = 8 * time.Second
	}
	for i := range times {
		<-time.After(calm + between(random, 100*time.Millisecond, 3*time.Second))
		name := fmt.Sprint("kafka-", 1+random.IntN(brokers))
		switch i % 3 {
		case 0:
			servers.Do(name, "kill")
			s.count("brokers killed", 1)
			<-time.After(between(random, 10*time.Millisecond, 3*time.Second))
			servers.Do(name, "start")
		case 1:
			servers.Do(name, "freeze")
			s.count("brokers frozen", 1)
			<-time.After(between(random, 2*time.Second, 20*time.Second))
			servers.Do(name, "thaw")
		case 2:
			servers.Do(name, "stop")
			s.count("brokers stopped", 1)
			servers.Do(name, "start")
		}
	}
}

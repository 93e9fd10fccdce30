//go:build unix

package kafka_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// They come in a tenth of a minute; it once took 44 until brokers refused the commit (4,096 bytes of metadata).
func TestThreeHundredChangesOfPolicyAreNoticedByNobodyOnRealServers(t *testing.T) {
	const users, changes = 40, 300
	o := newTopics(t)
	cluster := kafka.Config{Brokers: strings.Split(os.Getenv("STILLHERE_TEST_KAFKA"), ","), Prefix: o.prefix}
	producer := kafkatest.Producer(t, cluster)
	reader := kafkatest.Reader(t, cluster)
	write := func(frame func(partition int32) []byte) {
		var all []schemas.Outgoing
		for p := range int32(2) {
			all = append(all, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p, Value: frame(p)})
		}
		must.Do(t, producer.AppendSync(t.Context(), all...))
	}
	transitions := func() (n int) {
		for p := range int32(2) {
			must.Do(t, reader.Read(t.Context(), schemas.Transitions, p, -1, -1, true, func(*schemas.Record) error { n++; return nil }))
		}
		return n
	}
	caughtUp := func() {
		testkit.Until(t, "everything is committed", 30*time.Second, func() bool {
			commits, err := kafka.Committed(t.Context(), cluster, "stillhere.detector", schemas.Heartbeats)
			behind := err != nil || len(commits) < 2
			for p, c := range commits {
				if len(c.Metadata) >= 1024 {
					t.Errorf("the metadata of partition %d has %d bytes", p, len(c.Metadata))
				}
				checkpoint := must.Get(schemas.DecodeCheckpoint(c.Metadata))(t)
				behind = behind || checkpoint.Policy.Policy.CohortRate != changes
			}
			return !behind
		})
	}

	d := o.detector()
	write(func(p int32) []byte {
		var beats []schemas.Beat
		for user := schemas.UserID(1); user <= users; user++ {
			if schemas.PartitionOf(user, 2) == p {
				beats = append(beats, schemas.Beat{User: user, Device: 1, Kind: schemas.Web})
			}
		}
		return schemas.AppendFrame(nil, schemas.FrameHead{}, beats)
	})
	testkit.Until(t, "everybody is online", 20*time.Second, func() bool { return transitions() == users })
	policy := schemas.DefaultPolicy()
	for n := range changes { // a commit for most of them
		policy.CohortRate = n + 1
		frame := schemas.AppendPolicy(nil, policy)
		write(func(int32) []byte { return frame })
		<-time.After(20 * time.Millisecond)
	}
	caughtUp()
	if log := d.Err.String(); !d.Running() || strings.Contains(log, "the session ended") || strings.Contains(log, "ALARM") {
		t.Errorf("the detector noticed; it said last:\n%s", testkit.Tail(log, 2000))
	}
	d.Kill()
	d = o.detector()
	caughtUp()
	if log := d.Err.String(); !d.Running() || strings.Contains(log, "ALARM") {
		t.Errorf("after a kill it said last:\n%s", testkit.Tail(log, 2000))
	}
	if n := transitions(); n != users {
		t.Errorf("%d transitions, there were %d before the policies", n, users)
	}
}

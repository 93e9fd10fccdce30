//go:build unix

package attack_test

import (
	"crypto/rand"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// largest is about what a broker takes in one record, unless it is told otherwise.
const largest = 1_048_000

// produces writes records as somebody who may write to a topic, to every partition.
func produces(h *testkit.Dev, topic schemas.Topic, records ...kgo.Record) {
	h.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(h.Broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	must.Do(h, err)
	defer client.Close()
	var all []*kgo.Record
	for p := range int32(testkit.DevPartitions) {
		for _, r := range records {
			r.Topic, r.Partition = topic.Name(schemas.DefaultPrefix), p
			all = append(all, &r)
		}
	}
	if err := client.ProduceSync(h.Context(), all...).FirstErr(); err != nil {
		h.Fatalf("writing to %s: %v", topic, err)
	}
}

// noise is incompressible.
func noise(t *testing.T, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	must.Get(rand.Read(b))(t)
	return b
}

// Of each topic, records that nobody can read, the largest ones too.
func TestRecordsThatNobodyCanReadHoldUpNoPartition(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t, "--followers", "all")
	h.Up()
	var many []kgo.RecordHeader
	for range 20_000 {
		many = append(many, kgo.RecordHeader{Key: "stillhere-error", Value: noise(t, 20)})
	}
	users := []schemas.UserID{1, 2, 3, 4, 5, 6, 7, 8}
	var beats []testkit.Beat
	for _, user := range users {
		beats = append(beats, testkit.Beat{User: user, Device: 7})
	}
	garbage := []kgo.Record{
		{Value: noise(t, largest)}, {Value: noise(t, 100), Key: noise(t, largest-100)}, {Value: noise(t, 10), Headers: many},
		{Value: []byte{}}, {Key: schemas.UserID(1).Key(), Value: noise(t, largest)}, {Key: []byte("x")}, {},
	}
	for _, topic := range []schemas.Topic{schemas.Heartbeats, schemas.Transitions, schemas.Statuses, schemas.Fanout, schemas.Deliveries} {
		produces(h, topic, garbage...)
	}
	future := schemas.MillisOf(time.Now().AddDate(10, 0, 0))
	for _, s := range []schemas.Status{
		{State: schemas.Online, Version: math.MaxInt64, Since: 1, LastSeen: 1},
		{State: schemas.Online, Version: schemas.NewVersion(1, 1<<40, 0), Since: 1, LastSeen: 1},
		{State: schemas.Online, Version: 1, Since: future, LastSeen: future},
		{State: schemas.Online, Version: -1, Since: math.MinInt64, LastSeen: math.MaxInt64},
	} {
		for user := schemas.UserID(100); user < 120; user++ {
			s.User = user
			produces(h, schemas.Statuses, kgo.Record{Key: user.Key(), Value: s.Encode()})
		}
	}
	produces(h, schemas.Heartbeats, slices.Repeat([]kgo.Record{{Value: []byte("x")}}, 500)...)
	h.MustSend(beats...)
	begun := time.Now()
	h.AllAre("online", users)
	t.Logf("online after %s", time.Since(begun))
	if n := strings.Count(h.Err.String(), "record sent to the dead-letter topic"); n > 500 {
		t.Errorf("%d lines of the log report 2,000 records that nobody can read", n)
	}
	for range 2 {
		h.Kill()
		begun = time.Now()
		h.Up()
		t.Logf("up after %s", time.Since(begun))
		h.MustSend(beats...)
		for i := range beats {
			beats[i].Bye = !beats[i].Bye
		}
		h.MustSend(beats...)
		state := "online"
		if beats[0].Bye {
			state = "offline"
		}
		h.AllAre(state, users)
		t.Logf("%s after %s", state, time.Since(begun))
	}
}

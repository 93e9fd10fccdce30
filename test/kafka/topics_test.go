//go:build unix

package kafka_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// topicsOf are topics of the test's own on the server of STILLHERE_TEST_KAFKA.
type topicsOf struct {
	*testing.T
	path, prefix string
	admin        *kadm.Client
	mode         []string // flags that say what users are called
}

func newTopics(t *testing.T) *topicsOf {
	t.Helper()
	return newTopicsIn(t, testkit.Mode{})
}

func newTopicsIn(t *testing.T, m testkit.Mode) *topicsOf {
	t.Helper()
	testkit.NeedKafka(t)
	addresses := os.Getenv("STILLHERE_TEST_KAFKA")
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(strings.Split(addresses, ",")...)))(t)
	t.Cleanup(client.Close)
	o := &topicsOf{T: t, path: testkit.Binary(t, "stillhere"), admin: kadm.NewClient(client), mode: m.Flags(t),
		prefix: strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-") + "-" + time.Now().Format("150405.000000") + "."}
	if code, said := o.stillhere("topics", "apply", "--partitions", "2"); code != 0 {
		t.Fatalf("making topics: %s", said)
	}
	return o
}

// flags name the server and the topics.
func (o *topicsOf) flags() []string {
	return append([]string{"--kafka-brokers", os.Getenv("STILLHERE_TEST_KAFKA"), "--topic-prefix", o.prefix}, o.mode...)
}

func (o *topicsOf) stillhere(arguments ...string) (code int, said string) {
	o.Helper()
	p := testkit.Start(o.T, o.path, nil, append(arguments, o.flags()...)...)
	code = p.Wait(60 * time.Second)
	return code, p.Out.String() + p.Err.String()
}

// detector starts one and waits until it is ready.
func (o *topicsOf) detector(more ...string) *testkit.Program {
	o.Helper()
	p := testkit.Start(o.T, o.path, func(*exec.Cmd) {}, append(append([]string{"detector", "--instance", "one", "--admin="}, more...), o.flags()...)...)
	testkit.Until(o.T, "the detector is ready", time.Minute, func() bool { return strings.Contains(p.Err.String(), `"msg":"ready"`) || !p.Running() })
	return p
}

func (o *topicsOf) name(topic schemas.Topic) string { return topic.Name(o.prefix) }

// enlarge gives topics more partitions, as anybody may who has the rights.
func (o *topicsOf) enlarge(partitions int, topics ...schemas.Topic) {
	o.Helper()
	for _, topic := range topics {
		answers, err := o.admin.UpdatePartitions(o.Context(), partitions, o.name(topic))
		if err == nil {
			err = answers.Error()
		}
		must.Do(o.T, err)
	}
}

func TestMorePartitionsAreRefusedWithWhatToDoAndReportedByThoseWhoRun(t *testing.T) {
	t.Parallel()
	o := newTopics(t)
	p := o.detector()
	o.enlarge(4, schemas.Heartbeats)
	testkit.Until(t, "the check finds it", 20*time.Second, func() bool {
		code, said := o.stillhere("topics", "apply", "--dry-run")
		return code == 1 && strings.Contains(said, "partitions and must have") && strings.Contains(said, "users would be looked for in the wrong place")
	})
	if code, said := o.stillhere("detector", "--instance", "two", "--admin="); code != 1 || !strings.Contains(said, "partitions and must have") {
		t.Errorf("a detector started on it ends with %d and says %s", code, said)
	}
	testkit.Until(t, "the detector that was there says it", 90*time.Second, func() bool {
		return strings.Contains(p.Err.String(), "ALARM: the topics were changed while this process runs")
	})
	if log := p.Err.String(); !p.Running() || strings.Contains(log, "the session ended") {
		t.Errorf("the detector that was there does not go on; it said last:\n%s", testkit.Tail(log, 2000))
	}
}

func TestUsersWhoAreInThePartitionsOfAnotherNumberAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	o := newTopics(t)
	p := o.detector()
	client := kafkatest.Producer(t, kafka.Config{Brokers: strings.Split(os.Getenv("STILLHERE_TEST_KAFKA"), ","), Prefix: o.prefix})
	defer func() { must.Do(t, client.Close(context.WithoutCancel(t.Context()))) }()
	var beats []schemas.Outgoing
	for user := schemas.UserID(1); user <= 20; user++ {
		beats = append(beats, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(user, 2),
			Value: schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 1, Kind: schemas.Web}})})
	}
	must.Do(t, client.AppendSync(t.Context(), beats...))
	testkit.Until(t, "they are online", 20*time.Second, func() bool {
		offsets, err := o.admin.ListEndOffsets(t.Context(), o.name(schemas.Statuses))
		if err != nil {
			return false
		}
		n := int64(0)
		offsets.Each(func(l kadm.ListedOffset) { n += l.Offset })
		return n >= 20
	})
	p.Signal(syscall.SIGTERM)
	p.Wait(20 * time.Second)
	o.enlarge(4, schemas.Heartbeats, schemas.Transitions, schemas.Statuses, schemas.Snapshots, schemas.SeenHints)
	testkit.Until(t, "the topics agree", 20*time.Second, func() bool {
		code, _ := o.stillhere("topics", "apply", "--dry-run")
		return code == 0
	})
	if code, said := o.stillhere("detector", "--instance", "two", "--admin="); code != 1 || !strings.Contains(said, "partitions were added after users had been written") {
		t.Errorf("a detector started on it ends with %d and says %s", code, said)
	}
}

func TestATopicThatIsRecreatedUnderADetectorIsTakenUp(t *testing.T) {
	t.Parallel()
	o := newTopics(t)
	p := o.detector()
	answers, err := o.admin.DeleteTopics(t.Context(), o.name(schemas.Heartbeats))
	if err == nil {
		err = answers.Error()
	}
	must.Do(t, err)
	testkit.Until(t, "the detector says what is wrong", 20*time.Second, func() bool { return strings.Contains(p.Err.String(), "asking about topic "+o.name(schemas.Heartbeats)) })
	if code, said := o.stillhere("topics", "apply", "--partitions", "2"); code != 0 {
		t.Fatalf("making the topic again: %s", said)
	}
	// Ticks are in it, by the same process, and are handled.
	testkit.Until(t, "the new log moves on", 40*time.Second, func() bool {
		offsets, err := o.admin.FetchOffsets(t.Context(), kafka.Config{Prefix: o.prefix}.GroupName("stillhere.detector"))
		if err != nil || !p.Running() {
			return false
		}
		for partition := range int32(2) {
			if at, ok := offsets.Lookup(o.name(schemas.Heartbeats), partition); !ok || at.At < 8 {
				return false
			}
		}
		return true
	})
	if log := p.Err.String(); strings.Contains(log, `"reason":"stall"`) {
		t.Errorf("it came to a standstill first:\n%s", testkit.Tail(log, 3000))
	}
}

//go:build unix

package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

// sunk is a sink that writes what is published to topics of the test's own.
type sunk struct {
	*testing.T
	kafka    kafka.Config
	store    *sqlitestore.Store
	said     testkit.Transcript
	log      *slog.Logger
	producer *kafka.Producer
	ends     map[int32]int64 // of the topic that is there now
}

const sunkPartitions = 2

// onEachKafka runs test on the stand-in and, where one is named, on Apache Kafka.
func onEachKafka(t *testing.T, test func(w *sunk)) {
	t.Parallel()
	t.Run("stand-in", func(t *testing.T) {
		t.Parallel()
		cluster := must.Get(embedded.StartKafka(embedded.KafkaConfig{}))(t)
		t.Cleanup(cluster.Close)
		test(newSunk(t, cluster.Addrs()))
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		t.Parallel()
		testkit.NeedKafka(t)
		test(newSunk(t, strings.Split(os.Getenv("STILLHERE_TEST_KAFKA"), ",")))
	})
}

func newSunk(t *testing.T, brokers []string) *sunk {
	cluster := kafka.Config{Brokers: brokers, InstanceName: "one", Prefix: fmt.Sprintf("sunk-%d.", time.Now().UnixNano())}
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "stillhere.db")
	s := must.Get(sqlitestore.Open(t.Context(), config))(t)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	w := &sunk{T: t, kafka: cluster, store: s}
	w.log = slog.New(slog.NewTextHandler(&w.said, nil))
	t.Cleanup(func() {
		must.Do(t, w.producer.Close(context.Background()))
		must.Do(t, admin.DeleteTopics(context.Background(), cluster))
	})
	w.make()
	return w
}

// make makes the topics, and a producer, for it stays with the topics that it knows.
func (w *sunk) make() {
	w.Helper()
	must.Get(admin.ApplyTopics(w.Context(), w.kafka, sunkPartitions, 1))(w.T)
	w.producer = kafkatest.Producer(w.T, w.kafka)
	w.ends = map[int32]int64{}
}

// remake deletes the topic of the transitions and recreates it.
func (w *sunk) remake() {
	w.Helper()
	must.Do(w.T, w.producer.Close(w.Context()))
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(w.kafka.Brokers...), kgo.MetadataMinAge(10*time.Millisecond)))(w.T)
	defer client.Close()
	admin := kadm.NewClient(client)
	name := schemas.Transitions.Name(w.kafka.Prefix)
	answers := must.Get(admin.DeleteTopics(w.Context(), name))(w.T)
	must.Do(w.T, answers.Error())
	testkit.Until(w.T, "the topic is gone", 20*time.Second, func() bool {
		found, err := admin.ListTopics(w.Context())
		return err == nil && !found.Has(name)
	})
	w.make()
}

// publish appends the changes, each to its user's partition.
func (w *sunk) publish(log []*schemas.Transition) {
	w.Helper()
	outs := make([]schemas.Outgoing, len(log))
	for i, change := range log {
		p := schemas.PartitionOf(change.User, sunkPartitions)
		outs[i] = schemas.Outgoing{Topic: schemas.Transitions, Partition: p, Key: change.User.Key(), Value: change.Encode()}
		w.ends[p]++
	}
	must.Do(w.T, w.producer.AppendSync(w.Context(), outs...))
}

// sink runs one; stop ends it and waits.
func (w *sunk) sink() (stop func()) {
	s := sink.New(w.store, lastseen.Defaults(), lastseen.NewMetrics(prometheus.NewRegistry()))
	f := consumer.New(w.kafka, "sink", schemas.Transitions, stream.DecodeTransition, s, nil, w.log, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			must.Do(w.T, <-ended)
		}
	}
	w.Cleanup(stop)
	return stop
}

// written waits until everything of the topic is in the store, and wants the store's
// log to be just these changes.
func (w *sunk) written(logs ...[]*schemas.Transition) {
	w.Helper()
	testkit.Until(w.T, "everything is written", time.Minute, func() bool {
		for p, end := range w.ends {
			if at, err := w.store.Position(w.Context(), p); err != nil || at.Next != end || !at.Topic.Known() {
				return false
			}
		}
		return true
	})
	want := map[schemas.Version]bool{}
	for _, log := range logs {
		for _, change := range log {
			want[change.Version] = true
		}
	}
	rows := 0
	must.Do(w.T, w.store.Changes(w.Context(), store.Range{}, func(e *store.Entry) error {
		rows++
		if !want[e.Version] {
			w.Errorf("a row that nobody published: %+v", e.Transition)
		}
		delete(want, e.Version)
		return nil
	}))
	if len(want) > 0 {
		w.Errorf("%d changes are not in the store, which has %d rows", len(want), rows)
	}
}

func (w *sunk) alarms() int {
	return strings.Count(w.said.String(), "ALARM: the topic was deleted and recreated")
}

func TestAllOfATopicThatIsRecreatedComesIntoTheStoreAndNothingTwice(t *testing.T) {
	onEachKafka(t, func(w *sunk) {
		all := storetest.RandomLog(1, 40, 3000)
		first, second, third := all[:600], all[600:1600], all[1600:]
		w.publish(first)
		stop := w.sink()
		w.written(first)
		stop()
		if w.alarms() != 0 {
			w.Errorf("it says: %s", w.said.String())
		}

		w.remake() // while no sink runs
		w.publish(second)
		stop = w.sink()
		w.written(first, second)
		if w.alarms() != sunkPartitions {
			w.Errorf("it says ALARM %d times: %s", w.alarms(), w.said.String())
		}

		w.remake() // under one that runs
		w.publish(third)
		w.written(first, second, third)
		stop()
		if w.alarms() != 2*sunkPartitions {
			w.Errorf("it says ALARM %d times: %s", w.alarms(), w.said.String())
		}
		if strings.Contains(w.said.String(), "the log ends before the stored offset") {
			w.Errorf("it says: %s", w.said.String())
		}
	})
}

func TestAStoreAheadOfARestoredLogTakesNothingBeforeALogEpochAbove(t *testing.T) {
	for name, lost := range map[string]int64{"the log ends before the store": 100, "the log has grown beyond the store": 10} {
		t.Run(name, func(t *testing.T) {
			onEachKafka(t, func(w *sunk) {
				all := storetest.RandomLog(1, 40, 400)
				first, second := all[:300], all[300:]
				w.publish(first)
				stop := w.sink()
				w.written(first)
				stop()
				// The store has more than the log.
				for p := range int32(sunkPartitions) {
					at := must.Get(w.store.Position(w.Context(), p))(w.T)
					if at.Latest == 0 || at.LogEpoch == 0 {
						t.Fatalf("the position is %+v", at)
					}
					must.Do(w.T, w.store.Append(w.Context(), store.Batch{Partition: p, Expected: at.Next, ExpectedTopic: at.Topic,
						Next: at.Next + lost, Topic: at.Topic, Latest: at.Latest, LogEpoch: at.LogEpoch}))
				}
				w.publish(second)
				stop = w.sink()
				testkit.Until(t, "ALARM", time.Minute, func() bool {
					return strings.Count(w.said.String(), "ALARM: the log ") == sunkPartitions
				})
				above := []*schemas.Transition{}
				for _, change := range all[300:] {
					later := *change
					later.At, later.Version = later.At+100_000, schemas.NewVersion(later.Version.LogEpoch()+1, later.Version.Offset(), later.Version.Ordinal())
					above = append(above, &later)
				}
				w.publish(above)
				w.written(first, above)
				stop()
			})
		})
	}
}

//go:build synctests

package looptest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// onEach runs a test in virtual time on the stand-in, and in real time on the
// Apache Kafka that STILLHERE_TEST_KAFKA names, on topics and in groups of its own.
func onEach(t *testing.T, partitions int32, test func(w *world)) {
	t.Parallel()
	t.Run("stand-in", func(t *testing.T) { inWorld(t, partitions, test) })
	t.Run("Apache Kafka", func(t *testing.T) { inKafka(t, partitions, test) })
}

func inKafka(t *testing.T, partitions int32, test func(w *world)) {
	t.Helper()
	addresses := os.Getenv("STILLHERE_TEST_KAFKA")
	if addresses == "" {
		t.Skip("STILLHERE_TEST_KAFKA names no server (host:port, see deploy/local/up), so only the stand-in is held to this")
	}
	t.Parallel()
	w := newWorld(t, nil, kafka.Config{Brokers: strings.Split(addresses, ","), Prefix: fmt.Sprintf("stream-%d.", time.Now().UnixNano())})
	admin := w.admin()
	t.Cleanup(func() {
		var names []string
		for _, topic := range schemas.Topics() {
			names = append(names, w.name(topic.Topic))
		}
		// The test's own context has ended.
		if _, err := admin.DeleteTopics(context.Background(), names...); err != nil {
			t.Errorf("removing the topics: %v", err)
		}
		admin.Close()
	})
	w.run(partitions, test)
}

func (w *world) admin() *kadm.Client {
	client := must.Get(kafka.NewClient(w.cfg.WithDefaults(), w.log))(w)
	return kadm.NewClient(client)
}

// name is what a topic is called in this world.
func (w *world) name(topic schemas.Topic) string { return topic.Name(w.cfg.WithDefaults().Prefix) }

// pass lets time pass in which something might happen that must not. Real time
// is too dear for all of it.
func (w *world) pass(d time.Duration) {
	if w.kafka == nil {
		d = min(d, 5*time.Second)
	}
	time.Sleep(d)
}

// deleteRecords removes what is before an offset, as retention does.
func (w *world) deleteRecords(topic schemas.Topic, partition int32, before int64) {
	w.Helper()
	admin := w.admin()
	defer admin.Close()
	var offsets kadm.Offsets
	offsets.AddOffset(w.name(topic), partition, before, -1)
	must.Do(w, must.Get(admin.DeleteRecords(w.Context(), offsets))(w).Error())
}

func (w *world) deleteTopic(topic schemas.Topic) {
	w.Helper()
	admin := w.admin()
	defer admin.Close()
	must.Do(w, must.Get(admin.DeleteTopics(w.Context(), w.name(topic)))(w).Error())
	w.until("the topic is gone", 10*time.Second, func() bool { return !w.exists(topic) })
}

// exists reports whether the brokers know a topic.
func (w *world) exists(topic schemas.Topic) bool {
	w.Helper()
	admin := w.admin() // a new one, since clients keep for a while what they know
	defer admin.Close()
	return must.Get(admin.ListTopics(w.Context()))(w).Has(w.name(topic))
}

func (w *world) createTopic(topic schemas.Topic, partitions int32, config map[string]string) {
	w.Helper()
	admin := w.admin()
	defer admin.Close()
	settings := map[string]*string{}
	for name, value := range config {
		settings[name] = &value
	}
	must.Do(w, must.Get(admin.CreateTopic(w.Context(), partitions, 1, settings, w.name(topic)))(w).Err)
	w.until("all brokers know the topic", 10*time.Second, func() bool { return w.exists(topic) })
}

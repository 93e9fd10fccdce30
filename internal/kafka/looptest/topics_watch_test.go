//go:build synctests

package looptest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// enlarge gives a topic more partitions, as anybody may who has the rights.
func (w *world) enlarge(topic schemas.Topic, partitions int) {
	w.Helper()
	admin := w.admin()
	defer admin.Close()
	must.Do(w, must.Get(admin.UpdatePartitions(w.Context(), partitions, w.name(topic)))(w).Error())
}

// Kafka's client learns of new partitions in its own time.
const metadataAge = 6 * time.Minute

func TestPartitionsThatAreAddedUnderADetectorAreLeftAloneAndTheOthersGoOn(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		_, a := w.joined("a", 2)
		w.beat(0, "x")
		w.until("x counted", 10*time.Second, func() bool { return w.counts()["x"] == 1 })
		w.enlarge(schemas.Heartbeats, 3)
		w.until("the new one is parked", metadataAge, func() bool {
			s := a.Status()
			return len(s) == 3 && s[2].Phase == kafka.Parked
		})
		w.beat(0, "x")
		w.beat(1, "y")
		w.until("the others go on", 20*time.Second, func() bool { c := w.counts(); return c["x"] == 2 && c["y"] == 1 })
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "partition 2 is parked") {
			t.Errorf("ready says %v", err)
		}
		if made := w.made("a", 0); made[len(made)-1].commit.Partitions != 2 {
			t.Errorf("a task was told of %d partitions, as many as users are not spread over", made[len(made)-1].commit.Partitions)
		}
		w.noRestarts()
		if made := len(w.made("a", 2)); made != 0 {
			t.Errorf("%d tasks were made for the new one", made)
		}
	})
}

// lockedBuffer is text that a goroutine writes and another reads.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestTopicsThatAreChangedUnderAProcessAreLoggedOnceAndInAMetric(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		said := &lockedBuffer{}
		ctx, cancel := context.WithCancel(w.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() {
			admin.WatchTopics(ctx, w.cfg, 2, time.Minute, slog.New(slog.NewTextHandler(said, nil)), w.metrics)
		})
		wrong := func() float64 {
			n, _ := w.series("stillhere_stream_topic_config_mismatch", nil)
			return n
		}
		time.Sleep(3*time.Minute + 30*time.Second) // between two looks, or one would see half of the change
		if said.String() != "" || wrong() != 0 {
			t.Errorf("while nothing was wrong it says %g and %s", wrong(), said)
		}
		for _, topic := range []schemas.Topic{schemas.Heartbeats, schemas.Transitions, schemas.Statuses} {
			w.enlarge(topic, 4)
		}
		time.Sleep(5 * time.Minute)
		if text := said.String(); wrong() != 1 || strings.Count(text, "ALARM") != 1 || !strings.Contains(text, "heartbeats has 4 partitions and had 2 when this process was started") {
			t.Errorf("of topics that all have more partitions it says %g and %s", wrong(), text)
		}
	})
}

//go:build synctests

package looptest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// booked is a handler that keeps its place and the topic of it, as a sink does.
type booked struct {
	mu     sync.Mutex
	kept   stream.StoredOffset
	nobody bool // it has kept no topic, as an older version of it
	at     stream.Assignment
	items  []string // of the topic at hand
}

var _ consumer.PositionedHandler = &booked{}

func (b *booked) Start(_ context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.kept
	if b.at = at; b.kept.Topic != at.TopicID {
		b.items = nil
	}
	b.kept.Topic = at.TopicID
	if b.nobody {
		before.Topic = schemas.TopicID{}
	}
	return before, nil
}

func (b *booked) Apply(_ context.Context, batch stream.Batch[string]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, batch.Items...)
	b.kept.Next = batch.Next
	return nil
}

func (b *booked) have() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.items, " ")
}

const madeAnew = "ALARM: the topic was deleted and recreated"

// remake deletes a topic and makes it anew, and the producer with it,
// for it stays with the topic that it knows.
func (w *world) remake(topic schemas.Topic) {
	w.Helper()
	w.deleteTopic(topic)
	must.Do(w, w.producer.Close(w.Context()))
	must.Get(admin.ApplyTopics(w.Context(), w.cfg, 1, 1))(w)
	w.producer = kafkatest.Producer(w, w.cfg)
}

// numbers are the values of the records that put has put.
func (w *world) numbers(from, to int) (all string) {
	w.Helper()
	for i := from; i < to; i++ {
		w.put(0, fmt.Sprint(i))
		all += " " + fmt.Sprint(i)
	}
	return strings.TrimSpace(all)
}

func (w *world) gaps() int {
	w.Helper()
	families := must.Get(w.registry.Gather())(w)
	for _, family := range families {
		if strings.HasSuffix(family.GetName(), "gaps_total") {
			return int(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return 0
}

func TestARecreatedTopicIsReadFromItsStartAlsoIfTheStoredOffsetLiesInIt(t *testing.T) {
	onEach(t, 1, func(w *world) {
		said := &lockedBuffer{}
		w.log = slog.New(slog.NewTextHandler(said, nil))
		b := &booked{kept: stream.StoredOffset{Next: -1}}
		first := w.numbers(0, 5)
		stop, _ := w.follower("a", b)
		w.until("applied", 30*time.Second, func() bool { return b.have() == first })
		stop()
		old := b.at.TopicID
		if !old.Known() || strings.Contains(said.String(), "ALARM") || b.kept.Next != 5 {
			w.Fatalf("topic %s, kept %+v", old, b.kept)
		}
		w.remake(schemas.Transitions)
		second := w.numbers(100, 112)
		stop, _ = w.follower("a", b)
		w.until("all of the new one applied", 30*time.Second, func() bool { return b.have() == second })
		stop()
		if at := b.at; at.TopicID == old || at.LogStart != 0 || at.LogEnd != 12 || at.Partitions != 1 {
			w.Errorf("told of %+v", at)
		}
		if strings.Count(said.String(), madeAnew) != 1 || w.gaps() != 1 {
			w.Errorf("said %d times, %d gaps", strings.Count(said.String(), madeAnew), w.gaps())
		}
	})
}

func TestATopicRecreatedUnderAConsumerIsReadFromItsStart(t *testing.T) {
	onEach(t, 1, func(w *world) {
		said := &lockedBuffer{}
		w.log = slog.New(slog.NewTextHandler(said, nil))
		b := &booked{kept: stream.StoredOffset{Next: -1}}
		first := w.numbers(0, 5)
		w.follower("a", b)
		w.until("applied", 30*time.Second, func() bool { return b.have() == first })
		w.remake(schemas.Transitions)
		second := w.numbers(100, 112)
		w.until("all of the new one applied", time.Minute, func() bool { return b.have() == second })
		if strings.Count(said.String(), madeAnew) != 1 {
			w.Errorf("said %d times", strings.Count(said.String(), madeAnew))
		}
	})
}

func TestAnOffsetWhoseTopicIsNotKnownIsTakenForOneOfTheTopicThatIsThere(t *testing.T) {
	onEach(t, 1, func(w *world) {
		b := &booked{kept: stream.StoredOffset{Next: 7}, nobody: true}
		all := w.numbers(0, 12)
		w.follower("a", b)
		w.until("the rest applied", 30*time.Second, func() bool { return b.have() != "" && strings.HasSuffix(all, b.have()) })
		if b.have() != "7 8 9 10 11" {
			w.Errorf("applied %s", b.have())
		}
	})
}

//go:build synctests

package looptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// keeper is a handler that keeps what it gets, and fails, hangs or starts
// elsewhere when told to.
type keeper struct {
	mu      sync.Mutex
	items   map[int32][]string
	offsets map[int32]int64
	marks   map[int32][]schemas.Millis
	fail    error
	failOf  int32 // partition; -1 for all
	start   map[int32]int64
	stopped []int32
	latest  schemas.Millis // of the last batch
}

func newKeeper() *keeper {
	return &keeper{items: map[int32][]string{}, offsets: map[int32]int64{}, marks: map[int32][]schemas.Millis{}, failOf: -1}
}

func (k *keeper) Apply(_ context.Context, b stream.Batch[string]) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil && (k.failOf < 0 || k.failOf == b.Partition) {
		return k.fail
	}
	if len(b.Items) == 0 || b.Next <= k.offsets[b.Partition] {
		return fmt.Errorf("a batch of %d items with next offset %d after %d", len(b.Items), b.Next, k.offsets[b.Partition])
	}
	k.items[b.Partition] = append(k.items[b.Partition], b.Items...)
	k.offsets[b.Partition], k.latest = b.Next, b.Latest
	return nil
}

func (k *keeper) Watermark(_ context.Context, partition int32, at schemas.Millis) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.marks[partition] = append(k.marks[partition], at)
	return nil
}

func (k *keeper) setFail(err error, partition int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail, k.failOf = err, partition
}

func (k *keeper) count(partition int32) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.items[partition])
}

func (k *keeper) mark(partition int32) schemas.Millis {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.marks[partition]; len(m) > 0 {
		return m[len(m)-1]
	}
	return 0
}

// starting is a keeper that has offsets of its own.
type starting struct{ *keeper }

var _ consumer.PositionedHandler = starting{}

func (s starting) Start(_ context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return stream.StoredOffset{}, s.fail
	}
	if next, ok := s.start[at.Partition]; ok {
		return stream.StoredOffset{Next: next}, nil
	}
	return stream.StoredOffset{Next: -1}, nil
}

func (s starting) Stop(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = append(s.stopped, partition)
}

func TestAHandlerLearnsWhichPartitionsAnotherConsumerTakes(t *testing.T) {
	onEach(t, 2, func(w *world) {
		first, second := starting{newKeeper()}, starting{newKeeper()}
		stop, a := w.follower("a", first)
		w.has("the first has both", a, 2)
		_, b := w.follower("b", second)
		w.until("each has one", time.Minute, func() bool { return len(a.Status()) == 1 && len(b.Status()) == 1 })
		taken := b.Status()[0].Partition
		first.mu.Lock()
		if !slices.Equal(first.stopped, []int32{taken}) {
			w.Errorf("the first consumer had to stop %v, the second has %d", first.stopped, taken)
		}
		first.mu.Unlock()
		stop()
		if slices.Sort(first.stopped); !slices.Equal(first.stopped, []int32{0, 1}) {
			w.Errorf("after its end the first consumer had to stop %v", first.stopped)
		}
	})
}

func decodeKey(r *schemas.Record) (string, error) {
	if string(r.Key) == "bad" {
		return "", &schemas.FieldError{Code: "malformed", Field: "key", Reason: "is bad"}
	}
	return string(r.Key), nil
}

func (w *world) follower(name string, handler consumer.Handler[string], options ...consumer.Option) (stop func() error, f *consumer.Consumer[string]) {
	return follow(w, name, decodeKey, handler, options...)
}

func follow[T any](w *world, name string, decode func(*schemas.Record) (T, error), handler consumer.Handler[T], options ...consumer.Option) (stop func() error, f *consumer.Consumer[T]) {
	cfg := w.cfg
	cfg.InstanceName = name
	f = consumer.New(cfg, "follower", schemas.Transitions, decode, handler, w.producer, w.log, w.metrics, options...)
	return w.runs("follower "+name, f.Run), f
}

// put appends a record to the transitions, outside of a transaction.
func (w *world) put(partition int32, key string) {
	w.Helper()
	must.Do(w, w.producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Transitions, Partition: partition, Key: []byte(key)}))
}

func TestAFollowerAppliesInOrderAndGoesOnWhereItStopped(t *testing.T) {
	onEach(t, 2, func(w *world) {
		k := newKeeper()
		stop, f := w.follower("a", k)
		w.has("ready", f, 2)
		for i := range 100 {
			w.put(int32(i%2), fmt.Sprint(i/2))
		}
		w.until("applied", 10*time.Second, func() bool { return k.count(0) == 50 && k.count(1) == 50 })
		for p := range int32(2) {
			for i, got := range k.items[p] {
				if got != fmt.Sprint(i) {
					w.Fatalf("partition %d item %d is %s", p, i, got)
				}
			}
		}
		stop()
		w.put(0, "50")
		w.follower("a", k)
		w.until("applied", 30*time.Second, func() bool { return k.count(0) == 51 })
		w.pass(5 * time.Second)
		if k.count(0) != 51 || k.count(1) != 50 {
			w.Errorf("after the restart %d and %d were applied", k.count(0), k.count(1))
		}
	})
}

func TestAFailingHandlerHoldsUpItsPartitionAloneAndLosesNothing(t *testing.T) {
	onEach(t, 2, func(w *world) {
		cfg := w.cfg
		w.cfg.MaxPollRecords = 10
		k := newKeeper()
		k.setFail(errors.New("the database is down"), 0)
		stop, f := w.follower("a", k)
		w.cfg = cfg
		w.has("ready", f, 2)
		put := func(first, n int) {
			for i := first; i < first+n; i++ {
				w.put(0, fmt.Sprint(i))
				w.put(1, fmt.Sprint(i))
			}
			w.until("the other partition is applied", 10*time.Second, func() bool { return k.count(1) == first+n })
		}
		waiting := func() (n int, paused bool) {
			return f.Backlog(0)
		}
		put(0, 100)
		w.until("the partition is not fetched any more", 10*time.Second, func() bool { _, paused := waiting(); return paused })
		most, _ := waiting()
		put(100, 100)
		if now, _ := waiting(); now > most || k.count(0) != 0 {
			w.Errorf("%d records wait in memory, there were %d when enough waited; %d were applied", now, most, k.count(0))
		}
		w.pass(time.Minute)
		k.setFail(nil, -1)
		w.until("all is applied", 10*time.Second, func() bool { return k.count(0) == 200 })
		stop()
	})
}

func TestAPartitionThatWasPausedIsFetchedWithinTwoSecondsWhereOthersAreQuiet(t *testing.T) {
	onEach(t, 2, func(w *world) {
		w.cfg.MaxPollRecords = 10
		k := newKeeper()
		k.setFail(errors.New("the database is down"), 0)
		_, f := w.follower("a", k)
		w.has("ready", f, 2)
		put := func(first, n int) {
			for i := first; i < first+n; i++ {
				w.put(0, fmt.Sprint(i))
			}
		}
		put(0, 100)
		w.until("the partition is not fetched any more", 10*time.Second, func() bool {
			_, paused := f.Backlog(0)
			return paused
		})
		put(100, 100)
		k.setFail(nil, -1)
		w.until("what waited is applied", 2*time.Second, func() bool { return k.count(0) >= 100 })
		w.until("the rest is applied", 2100*time.Millisecond, func() bool { return k.count(0) == 200 })
	})
}

func TestWhatCannotBeDecodedIsADeadLetterAndTheRestGoesOn(t *testing.T) {
	onEach(t, 1, func(w *world) {
		k := newKeeper()
		for _, key := range []string{"a", "bad", "b", "bad"} {
			w.put(0, key)
		}
		k.setFail(errors.New("not yet"), -1)
		stop, _ := w.follower("a", k)
		w.pass(10 * time.Second)
		k.setFail(nil, -1)
		w.until("applied", 10*time.Second, func() bool { return k.count(0) == 2 })
		letters := w.read(schemas.DeadLetter)
		if len(letters) != 2 {
			w.Fatalf("%d dead letters", len(letters))
		}
		for i, offset := range []string{"1", "3"} {
			if got := string(letters[i].Header(kafka.HeaderOriginOffset)); got != offset || string(letters[i].Header(kafka.HeaderOriginTopic)) != w.name(schemas.Transitions) {
				w.Errorf("letter %d is from %s offset %s", i, letters[i].Header(kafka.HeaderOriginTopic), got)
			}
		}
		stop()
	})
}

// Whoever stores the latest time finds later by it whether the log is another one. A record that nobody stores is in the
// log, too.
func TestTheLatestTimeMayBeThatOfARecordThatCannotBeDecoded(t *testing.T) {
	onEach(t, 1, func(w *world) {
		k := newKeeper()
		_, f := w.follower("a", k)
		w.has("ready", f, 1)
		ahead := schemas.MillisOf(time.Now().Add(time.Minute))
		bad := schemas.Outgoing{Topic: schemas.Transitions, Key: []byte("bad"), Time: ahead}
		must.Do(w, w.producer.AppendSync(w.Context(), bad))
		w.until("a dead letter", 10*time.Second, func() bool { return len(w.read(schemas.DeadLetter)) == 1 })
		w.put(0, "a")
		w.until("applied", 10*time.Second, func() bool { return k.count(0) == 1 })
		if k.mu.Lock(); k.latest != ahead {
			w.Errorf("the latest time is %s, not %s", k.latest, ahead)
		}
		k.mu.Unlock()
	})
}

func TestAHandlerThatKeepsOffsetsSaysWhereToStart(t *testing.T) {
	onEach(t, 2, func(w *world) {
		for i := range 10 {
			w.put(0, fmt.Sprint(i))
			w.put(1, fmt.Sprint(i))
		}
		k := newKeeper()
		k.start = map[int32]int64{0: 7}
		k.setFail(errors.New("the database is down"), -1)
		w.follower("a", starting{k})
		w.pass(3 * time.Second)
		k.setFail(nil, -1)
		w.until("applied", 30*time.Second, func() bool { return k.count(0) == 3 && k.count(1) == 10 })
		if k.items[0][0] != "7" {
			w.Errorf("started at %s", k.items[0][0])
		}
	})
}

func TestWatermarksAdvanceWithoutTransitionsAndNeverTooFar(t *testing.T) {
	onEach(t, 2, func(w *world) {
		w.joined("a", 2)
		k := newKeeper()
		w.follower("a", k, consumer.WatermarksOf("detector", schemas.Heartbeats))
		w.until("first marks", 10*time.Second, func() bool { return k.mark(0) > 0 && k.mark(1) > 0 })
		w.pass(time.Minute)
		for p := range int32(2) {
			if age := time.Since(k.mark(p).Time()); age > 4*time.Second {
				w.Errorf("the watermark of partition %d is %s old", p, age)
			}
		}
		w.beat(0, "x")
		w.until("applied", 10*time.Second, func() bool { return k.count(0) == 1 })
		w.until("marked behind it", 5*time.Second, func() bool { return time.Since(k.mark(0).Time()) < 3*time.Second })
		// A handler that is stuck has no right to a watermark.
		k.setFail(errors.New("the database is down"), -1)
		w.beat(0, "x")
		stuck := schemas.MillisOf(time.Now())
		w.pass(30 * time.Second)
		if k.mark(0) > stuck {
			w.Errorf("the watermark went on to %s, a record of %s is not applied", k.mark(0), stuck)
		}
		if age := time.Since(k.mark(1).Time()); age > 4*time.Second {
			w.Errorf("the watermark of the other partition is %s old", age)
		}
		k.setFail(nil, -1)
		w.until("going on", 5*time.Second, func() bool { return time.Since(k.mark(0).Time()) < 4*time.Second })
	})
}

func TestFollowersShareAndHandOverPartitions(t *testing.T) {
	onEach(t, 4, func(w *world) {
		a, b := newKeeper(), newKeeper()
		_, fa := w.follower("a", a)
		w.has("a ready", fa, 4)
		sent := 0
		send := func(n int) {
			for range n {
				for p := range int32(4) {
					w.put(p, fmt.Sprint(sent))
				}
				sent++
				time.Sleep(20 * time.Millisecond)
			}
		}
		send(20)
		stopB, fb := w.follower("b", b)
		send(100)
		w.until("shared", 30*time.Second, func() bool { return len(fa.Status()) == 2 && len(fb.Status()) == 2 && fb.Ready() == nil })
		send(20)
		stopB()
		send(20)
		w.until("all with a", 60*time.Second, func() bool { return len(fa.Status()) == 4 && fa.Ready() == nil })
		for p := range int32(4) {
			seen := map[string]int{}
			for _, k := range append(append([]string{}, a.items[p]...), b.items[p]...) {
				seen[k]++
			}
			if len(seen) != sent {
				w.Errorf("partition %d: %d of %d were applied", p, len(seen), sent)
			}
			if n := a.count(p) + b.count(p); n != sent {
				w.Errorf("partition %d: %d were applied, %d were sent, though nothing crashed", p, n, sent)
			}
		}
	})
}

func TestAConsumerWithoutGroupReadsEverythingEveryTime(t *testing.T) {
	onEach(t, 2, func(w *world) {
		w.put(0, "a")
		w.put(1, "b")
		for range 2 {
			k := newKeeper()
			stop, f := w.follower("", k, consumer.WithoutGroup())
			w.until("applied", 10*time.Second, func() bool { return k.count(0) == 1 && k.count(1) == 1 })
			w.until("ready", 5*time.Second, func() bool { return f.Ready() == nil && len(f.Status()) == 2 })
			stop()
		}
	})
}

func TestAFollowerOutlivesABrokerThatIsAway(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		k := newKeeper()
		_, f := w.follower("a", k)
		w.until("ready", 30*time.Second, func() bool { return f.Ready() == nil })
		fault := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch, kmsg.Heartbeat, kmsg.OffsetCommit}, Err: kerr.NotCoordinator, Count: -1})
		w.put(0, "a")
		time.Sleep(30 * time.Second)
		fault.Remove()
		w.until("applied", 60*time.Second, func() bool { return k.count(0) >= 1 })
	})
}

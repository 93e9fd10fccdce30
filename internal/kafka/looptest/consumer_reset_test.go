//go:build synctests

package looptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// forgetful is a handler that keeps its place and loses some of it when told to.
type forgetful struct {
	mu     sync.Mutex
	kept   map[int32][]int64 // offsets of what was applied, by partition
	lost   map[int32]bool
	starts map[int32]int
}

var errForgot = &forgot{}

type forgot struct{}

func (*forgot) Error() string       { return "something was lost" }
func (*forgot) ResetPosition() bool { return true }

var _ consumer.PositionedHandler = &forgetful{}

func newForgetful() *forgetful {
	return &forgetful{kept: map[int32][]int64{}, lost: map[int32]bool{}, starts: map[int32]int{}}
}

func (f *forgetful) Start(_ context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	partition := at.Partition
	f.lost[partition] = false
	f.starts[partition]++
	if n := len(f.kept[partition]); n > 0 {
		return stream.StoredOffset{Next: f.kept[partition][n-1] + 1}, nil
	}
	return stream.StoredOffset{Next: -1}, nil
}

func (f *forgetful) Apply(_ context.Context, b stream.Batch[int64]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost[b.Partition] {
		return fmt.Errorf("partition %d: %w", b.Partition, errForgot)
	}
	f.kept[b.Partition] = append(f.kept[b.Partition], b.Items...)
	return nil
}

// lose drops the last n of what a partition has.
func (f *forgetful) lose(partition int32, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept[partition] = f.kept[partition][:len(f.kept[partition])-n]
	f.lost[partition] = true
}

func (f *forgetful) whole(partition int32, n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kept[partition]) != n {
		return fmt.Errorf("partition %d has %d records, must have %d", partition, len(f.kept[partition]), n)
	}
	for i, offset := range f.kept[partition] {
		if offset != int64(i) {
			return fmt.Errorf("partition %d has offset %d in place %d", partition, offset, i)
		}
	}
	return nil
}

func decodeOffset(r *schemas.Record) (int64, error) { return r.Offset, nil }

func TestAHandlerThatLostItsPlaceIsGivenThatPartitionAgainFromThereAndNoOther(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		k := newForgetful()
		w.cfg.MaxPollRecords = 7
		_, f := follow(w, "a", decodeOffset, k)
		w.has("ready", f, 2)
		total := 0
		for range 5 {
			for range 50 {
				w.put(0, "x")
				w.put(1, "x")
				total++
			}
			w.until("applied", 10*time.Second, func() bool { return k.whole(0, total) == nil && k.whole(1, total) == nil })
			k.lose(0, 30)
			for range 50 { // it notices by what comes
				w.put(0, "x")
				w.put(1, "x")
				total++
			}
			w.until("read again", 30*time.Second, func() bool { return k.whole(0, total) == nil && k.whole(1, total) == nil })
			must.Do(w, errors.Join(k.whole(0, total), k.whole(1, total)))
		}
		if k.starts[1] != 1 || k.starts[0] != 6 {
			w.Errorf("the partitions were started %v times, must be 6 and 1", k.starts)
		}
	})
}

func TestAConsumerWithoutGroupThatRestartsContinuesWhereItsHandlerIs(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		k := newForgetful()
		follow(w, "", decodeOffset, k, consumer.WithoutGroup())
		begun := func() int {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.starts[0]
		}
		for total := 1; total <= 3; total++ {
			w.put(0, "x")
			w.put(1, "x")
			w.until("applied", 30*time.Second, func() bool { return k.whole(0, total) == nil && k.whole(1, total) == nil })
			before := begun()
			// What a change of ACLs does: not an error that passes by itself.
			fault := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
			w.until("it begins anew", 60*time.Second, func() bool { return begun() > before })
			fault.Remove()
		}
	})
}

// counter counts batches.
type counter struct {
	*keeper
	batches int
}

func (c *counter) Apply(ctx context.Context, b stream.Batch[string]) error {
	c.mu.Lock()
	c.batches++
	c.mu.Unlock()
	return c.keeper.Apply(ctx, b)
}

func TestBatchesComeNoMoreOftenThanEveryIntervalButAtOnceAfterASilence(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		c := &counter{keeper: newKeeper()}
		_, f := w.follower("a", c, consumer.MinBatchInterval(time.Second))
		w.until("ready", 30*time.Second, func() bool { return f.Ready() == nil })
		time.Sleep(5 * time.Second)
		w.put(0, "0")
		begun := time.Now()
		w.until("the first is applied", 200*time.Millisecond, func() bool { return c.count(0) == 1 })
		for i := range 200 { // 10 s
			w.put(0, fmt.Sprint(i+1))
			time.Sleep(50 * time.Millisecond)
		}
		w.until("all are applied", 2*time.Second, func() bool { return c.count(0) == 201 })
		if most := int(time.Since(begun).Seconds()) + 2; c.batches > most || c.batches < 5 {
			w.Errorf("%d batches in %s", c.batches, time.Since(begun))
		}
	})
}

func TestAFullBatchDoesNotWaitForTheInterval(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.cfg.MaxPollRecords = 10
		k := newKeeper()
		_, f := w.follower("a", k, consumer.MinBatchInterval(time.Minute))
		w.until("ready", 30*time.Second, func() bool { return f.Ready() == nil })
		for i := range 100 {
			w.put(0, fmt.Sprint(i))
		}
		w.until("applied", 20*time.Second, func() bool { return k.count(0) >= 90 })
	})
}

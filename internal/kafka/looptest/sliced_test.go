//go:build synctests

package looptest

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// flooder is a task that puts out as many records as the value of a record says, in
// slices. Its checkpoint tells how many of the record at the commit were put out.
type flooder struct {
	partition int32
	slice     int
	events    *floodEvents

	next, offset int64
	total, put   int
	resume       int
}

// floodEvents is what a flooder tells the test; any part may be nil.
type floodEvents struct {
	mu       sync.Mutex
	sliced   int
	onSlice  func(n int)
	closed   int
	restored int
}

func (f *flooder) Restore(_ context.Context, at stream.Assignment, _ stream.ReadFunc) error {
	f.next = max(at.Offset, 0)
	f.events.mu.Lock()
	f.events.restored++
	f.events.mu.Unlock()
	if at.Metadata == "" {
		return nil
	}
	c, err := schemas.DecodeCheckpoint(at.Metadata)
	if err == nil {
		f.resume = int(c.ReplayOffset)
	}
	return err
}

func (f *flooder) Handle(r *schemas.Record, out *stream.Outbox) error {
	f.offset, f.total, f.put = r.Offset, 0, f.resume
	if r.Key != nil {
		f.total = int(binary.BigEndian.Uint32(r.Value))
	}
	f.resume = 0
	return f.Continue(out)
}

func (f *flooder) Continue(out *stream.Outbox) error {
	f.events.mu.Lock()
	f.events.sliced++
	n, tell := f.events.sliced, f.events.onSlice
	f.events.mu.Unlock()
	if tell != nil {
		tell(n)
	}
	for end := min(f.put+f.slice, f.total); f.put < end; f.put++ {
		out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Transitions, Partition: f.partition,
			Key: fmt.Appendf(nil, "%d/%d", f.offset, f.put), Value: []byte("put out")})
	}
	if f.next = f.offset; !f.Pending() {
		f.next, f.put, f.total = f.offset+1, 0, 0
	}
	return nil
}

func (f *flooder) Pending() bool { return f.put < f.total }
func (f *flooder) Next() int64   { return f.next }
func (f *flooder) Close()        { f.events.mu.Lock(); f.events.closed++; f.events.mu.Unlock() }

func (f *flooder) Checkpoint() string {
	return (&schemas.Checkpoint{LogEpoch: 1, ReplayOffset: int64(f.put)}).Encode()
}

func (w *world) flood(partition int32, n int) {
	w.Helper()
	if err := w.producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Heartbeats, Partition: partition, Key: []byte("flood"),
		Value: binary.BigEndian.AppendUint32(nil, uint32(n))}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) flooders(cfg kafka.Config, slice int, events *floodEvents) (*processor.Processor, func() error) {
	cfg.InstanceName = "a"
	transform := processor.New(cfg, "detector", schemas.Heartbeats, func(partition int32) processor.Task {
		return &flooder{partition: partition, slice: slice, events: events}
	}, w.producer, w.log, w.metrics)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- transform.Run(ctx) }()
	return transform, func() error { cancel(); return <-ended }
}

// untilFlooded waits until as many records are committed as done says; looking takes
// long, so it is done seldom.
func (w *world) untilFlooded(floods map[int32][]int, limit time.Duration, done func(got, want int) bool) {
	w.Helper()
	for start := time.Now(); ; time.Sleep(max(time.Second, time.Since(start)/20)) {
		got, want := w.flooded(floods)
		if done(got, want) {
			return
		}
		if time.Since(start) > limit {
			w.Fatalf("after %s only %d of %d are committed", limit, got, want)
		}
	}
}

func everything(got, want int) bool { return got == want }

// flooded checks that each record's output is there once and in order, and gives how
// many of how many records there are.
func (w *world) flooded(floods map[int32][]int) (got, want int) {
	w.Helper()
	offsets := map[int32][]int64{}
	for _, r := range w.read(schemas.Heartbeats) {
		if r.Key != nil {
			offsets[r.Partition] = append(offsets[r.Partition], r.Offset)
		}
	}
	all := map[int32][]string{}
	for partition, sizes := range floods {
		for i, n := range sizes {
			for j := range n {
				all[partition] = append(all[partition], fmt.Sprintf("%d/%d", offsets[partition][i], j))
			}
		}
		want += len(all[partition])
	}
	at := map[int32]int{}
	for _, r := range w.read(schemas.Transitions) {
		if i := at[r.Partition]; i >= len(all[r.Partition]) || all[r.Partition][i] != string(r.Key) {
			w.Fatalf("partition %d: %s stands at place %d", r.Partition, r.Key, i)
		}
		at[r.Partition]++
		got++
	}
	return got, want
}

// slowWrites makes the brokers take their time for the records of transactions.
func (w *world) slowWrites(perSecond int) {
	const recordsAt = 57 // in the header of a batch
	cluster := w.kafka.Cluster()
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce, records := request.(*kmsg.ProduceRequest), 0
		if produce.TransactionID == nil {
			return nil, nil, false
		}
		for i := range produce.Topics {
			for j := range produce.Topics[i].Partitions {
				records += int(binary.BigEndian.Uint32(produce.Topics[i].Partitions[j].Records[recordsAt:]))
			}
		}
		cluster.SleepControl(func() { time.Sleep(time.Duration(records) * time.Second / time.Duration(perSecond)) })
		return nil, nil, false
	})
}

func TestABacklogThatIsMoreThanOneTransactionCanHoldIsCommitted(t *testing.T) {
	for _, perSecond := range []int{1000, 300} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				floods := map[int32][]int{}
				for i := range 40 {
					partition := int32(i % 2)
					floods[partition] = append(floods[partition], 1000)
					w.flood(partition, 1000)
				}
				w.slowWrites(perSecond)
				_, stop := w.flooders(w.cfg, 1000, &floodEvents{})
				w.untilFlooded(floods, 4*time.Minute, everything)
				if err := stop(); err != nil {
					w.Error(err)
				}
			})
		})
	}
}

func TestOneRecordsOutputIsCommittedInSlicesWhileOtherPartitionsGoOn(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		cfg := w.cfg
		cfg.MaxTransactionRecords = 200
		floods := map[int32][]int{0: {20_000}}
		w.flood(0, 20_000)
		w.slowWrites(1000)
		events := &floodEvents{}
		transform, stop := w.flooders(cfg, 100, events)
		w.untilFlooded(floods, time.Minute, func(got, _ int) bool { return got > 0 })
		w.flood(1, 1)
		floods[1] = []int{1}
		time.Sleep(5 * time.Second)
		if !w.has(schemas.Transitions, 1) {
			w.Error("the other partition's waits for it")
		}
		if got, _ := w.flooded(floods); got > 10_000 {
			w.Errorf("%d are committed by then", got)
		}
		w.untilFlooded(floods, 3*time.Minute, everything)
		w.until("ready", 10*time.Second, func() bool { return transform.Ready() == nil })
		w.noRestarts()
		if err := stop(); err != nil {
			w.Error(err)
		}
		if events.restored != 2 || events.closed != 2 {
			w.Errorf("%d tasks were restored, %d closed", events.restored, events.closed)
		}
	})
}

func (w *world) has(topic schemas.Topic, partition int32) bool {
	for _, r := range w.read(topic) {
		if r.Partition == partition {
			return true
		}
	}
	return false
}

func TestAKillBetweenTwoSlicesGoesOnExactlyThere(t *testing.T) {
	for _, at := range []int{1, 2, 3, 7, 20, 31} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				floods := map[int32][]int{0: {5, 1000, 1000, 3, 1000}}
				for _, n := range floods[0] {
					w.flood(0, n)
				}
				wire := newWire(w.cfg.Dialer)
				cfg := w.cfg
				cfg.MaxTransactionRecords, cfg.Dialer = 150, wire.connect
				died := make(chan struct{})
				events := &floodEvents{onSlice: func(n int) {
					if n == at {
						wire.cut()
						close(died)
					}
				}}
				_, stop := w.flooders(cfg, 100, events)
				<-died
				_ = stop() // what is cut off cannot commit at its end, and says so
				halfway, want := w.flooded(floods)
				if halfway >= want {
					w.Fatal("everything was committed before the kill")
				}
				cfg.Dialer = w.cfg.Dialer
				_, stop = w.flooders(cfg, 100, &floodEvents{})
				w.untilFlooded(floods, time.Minute, everything)
				w.until("the position is behind it", 10*time.Second, func() bool { _, c := w.commits(0); return c.ReplayOffset == 0 })
				if err := stop(); err != nil {
					w.Error(err)
				}
			})
		})
	}
}

func TestAMemberThatComesInTheMidstOfARecordTakesItOverAtASlice(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		cfg := w.cfg
		cfg.MaxTransactionRecords = 200
		floods := map[int32][]int{0: {10_000}, 1: {10_000}}
		w.flood(0, 10_000)
		w.flood(1, 10_000)
		w.slowWrites(1000)
		_, stop := w.flooders(cfg, 100, &floodEvents{})
		w.untilFlooded(floods, time.Minute, func(got, _ int) bool { return got > 1000 })
		cfg.InstanceName = "b"
		events := &floodEvents{}
		b := processor.New(cfg, "detector", schemas.Heartbeats, func(partition int32) processor.Task {
			return &flooder{partition: partition, slice: 100, events: events}
		}, w.producer, w.log, w.metrics)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		w.until("the other has a partition", 30*time.Second, func() bool { return len(b.Status()) == 1 })
		if got, want := w.flooded(floods); got > want*3/4 {
			w.Errorf("%d of %d are committed by then", got, want)
		}
		w.untilFlooded(floods, 3*time.Minute, everything)
		w.noRestarts()
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		if err := stop(); err != nil {
			w.Error(err)
		}
	})
}

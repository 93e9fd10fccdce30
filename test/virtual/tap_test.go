package virtual

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// tapEvery is well within the retention of the heartbeats, also where the brokers' clock,
// by which records are stamped, is ten minutes behind that by which they are deleted.
const tapEvery = 4 * time.Minute

// tap collects the heartbeats while they are there: the topic keeps a quarter of
// an hour, the oracle must see all.
type tap struct {
	w      *world
	reader *kafka.Reader
	now    chan chan<- [][]schemas.Record // asks for a round out of turn; closed: the end
	loop   sync.WaitGroup

	all     [][]schemas.Record // by partition; the loop's
	records [][]schemas.Record // those of the last catchUp; the test's
}

func newTap(w *world, partitions int32) *tap {
	w.Helper()
	reader := must.Get(kafka.NewReader(clusterOf(w.config), w.log))(w)
	t := &tap{w: w, reader: reader, now: make(chan chan<- [][]schemas.Record), all: make([][]schemas.Record, partitions)}
	t.loop.Go(t.run)
	return t
}

func (t *tap) run() {
	ticker := time.NewTicker(tapEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.collect()
		case done, more := <-t.now:
			if !more {
				return
			}
			t.collect()
			done <- slices.Clone(t.all)
		}
	}
}

// catchUp collects up to the end as it is now.
func (t *tap) catchUp() {
	done := make(chan [][]schemas.Record)
	t.now <- done
	t.records = <-done
}

func (t *tap) close() {
	close(t.now)
	t.loop.Wait()
	t.reader.Close()
}

// collect appends what is new. A hole would mean that retention was faster.
func (t *tap) collect() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for partition := range t.all {
		have := t.all[partition]
		err := t.reader.Read(ctx, schemas.Heartbeats, int32(partition), int64(len(have)), -1, false, func(r *schemas.Record) error {
			if r.Offset != int64(len(have)) {
				return fmt.Errorf("the tap of partition %d missed the heartbeats from %d to %d", partition, len(have), r.Offset)
			}
			have = append(have, schemas.Record{Partition: r.Partition, Offset: r.Offset, Time: r.Time, Value: bytes.Clone(r.Value)})
			return nil
		})
		if err != nil {
			t.w.Error(err)
		}
		t.all[partition] = have
	}
}

// committed are the transitions that a read-committed consumer sees, by
// partition, in order.
func (t *tap) committed() [][]schemas.Transition {
	t.w.Helper()
	all := make([][]schemas.Transition, len(t.records))
	t.w.read(schemas.Transitions, func(r *schemas.Record) error {
		tr, err := schemas.DecodeTransition(r.Value)
		if err == nil {
			all[r.Partition] = append(all[r.Partition], *tr)
		}
		return err
	})
	return all
}

// read calls each for the committed records of a topic, one partition after the other.
func (w *world) read(topic schemas.Topic, each func(*schemas.Record) error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	n, err := w.tap.reader.Partitions(ctx, topic)
	for p := int32(0); p < n && err == nil; p++ {
		err = w.tap.reader.Read(ctx, topic, p, -1, -1, true, each)
	}
	must.Do(w, err)
}

// write appends records as another program might, by a producer that lasts as long as the world.
func (w *world) write(outs ...schemas.Outgoing) {
	w.Helper()
	must.Do(w, w.producer().AppendSync(w.Context(), outs...))
}

func (w *world) producer() *kafka.Producer {
	w.Helper()
	if w.writer == nil {
		var err error
		w.writer, err = kafka.NewProducer(clusterOf(w.config), w.log, nil)
		must.Do(w, err)
		w.ends = append(w.ends, func() { must.Do(w, w.writer.Close(context.Background())) })
	}
	return w.writer
}

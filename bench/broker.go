package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

const (
	brokerWriters = 32               // producers that write at the same time, as nodes of ingest do
	brokerSmall   = 256              // bytes of a record of a node with few users
	brokerLarge   = 64 << 10         // and of one whose bytes are what costs
	brokerWarmUp  = 10 * time.Second // until the broker's code is compiled
)

// broker measures the processor time of the brokers' own processes, by /proc: of a produced batch
// of one record with its replication and one consumer's fetches, and of its bytes. Each writer
// writes a batch to each partition and waits for the acknowledgements, as a flush of ingest does.
func (l *lab) broker(t *loadtest.T) {
	if len(t.Brokers) == 0 || len(l.BrokerPIDs) == 0 {
		t.Fatalf("measuring brokers needs --brokers, and their process ids on this machine with --broker-pids")
	}
	b := &brokers{t: t, rig: t.Rig(), pids: l.BrokerPIDs}
	t.Go(consumer.New(b.rig.Kafka, b.rig.Kafka.Prefix+"read", schemas.Heartbeats,
		func(*schemas.Record) (struct{}, error) { return struct{}{}, nil }, b, b.rig.Producer, b.rig.Log, nil, consumer.WithoutGroup()).Run)
	for range brokerWriters {
		producer, err := kafka.NewProducer(b.rig.Kafka, b.rig.Log, nil)
		t.Check(err)
		t.Cleanup(func() error { return producer.Close(context.Background()) })
		b.writers = append(b.writers, producer)
	}
	b.write(brokerSmall, brokerWarmUp)
	batches, took := b.write(brokerSmall, t.Length())
	replicas := float64(len(b.pids))
	each := took.Seconds() / float64(batches)
	t.Add("a batch, its replication and its fetches, on each replica", each/replicas*1e6, "µs").LessIsBetter()

	large, took := b.write(brokerLarge, t.Length())
	moved := float64(large) * (brokerLarge - brokerSmall) * (replicas + 1) // in, to the other replicas, to a consumer
	perByte := (took.Seconds() - each*float64(large)) / moved
	t.Add("a byte in or out", perByte*1e9, "ns").LessIsBetter()
	t.Add("in and out of two cores that are used by 60 %", 2*0.6/perByte, "B/s")
	t.Note(fmt.Sprintf("%d writers, %d partitions, %d brokers, each with a replica of everything; %d batches of %d bytes, %d of %d. "+
		"Processor time of the brokers' processes alone.", brokerWriters, t.Partitions, len(b.pids), batches, brokerSmall, large, brokerLarge))
}

type brokers struct {
	t       *loadtest.T
	rig     *loadtest.Rig
	pids    []int
	writers []*kafka.Producer
	read    atomic.Int64
	written int64
}

// Apply counts.
func (b *brokers) Apply(_ context.Context, batch stream.Batch[struct{}]) error {
	b.read.Add(int64(len(batch.Items)))
	return nil
}

// used is the processor time of all brokers.
func (b *brokers) used() (sum time.Duration) {
	for _, pid := range b.pids {
		sum += processorTime(pid)
	}
	return sum
}

// write writes records of a size until length has passed and they are read.
func (b *brokers) write(size int, length time.Duration) (batches int64, took time.Duration) {
	before := b.used()
	var all atomic.Int64
	var writers sync.WaitGroup
	failed := make(chan error, len(b.writers))
	for i, producer := range b.writers {
		value := make([]byte, size)
		random := rand.NewChaCha8([32]byte{byte(i)})
		_, _ = random.Read(value) // which never fails; nothing to compress
		writers.Go(func() {
			for begun := time.Now(); time.Since(begun) < length; {
				if err := b.flush(producer, value); err != nil {
					failed <- err
					return
				}
				all.Add(int64(b.t.Partitions))
			}
		})
	}
	writers.Wait()
	close(failed)
	b.t.Check(<-failed)
	b.written += all.Load()
	b.t.Until(func() string { return fmt.Sprintf("%d of %d batches are read", b.read.Load(), b.written) },
		func() bool { return b.read.Load() >= b.written })
	return all.Load(), b.used() - before
}

// flush writes a record to each partition.
func (b *brokers) flush(producer *kafka.Producer, value []byte) (err error) {
	acknowledged := make(chan error, b.t.Partitions)
	for p := range b.t.Partitions {
		producer.Append(b.t.Context(), schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p, Value: value},
			func(err error) { acknowledged <- err })
	}
	for range b.t.Partitions {
		if e := <-acknowledged; e != nil {
			err = e
		}
	}
	return err
}

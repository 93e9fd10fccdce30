// Package stream holds the types that the Kafka loops (internal/kafka/processor and
// internal/kafka/consumer) and the services pass to each other. A service needs no Kafka
// client to be called by a loop, and is tested with these values alone.
package stream

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// Assignment describes a partition that a loop begins to process: what the group has
// committed, and which offsets can be read.
type Assignment struct {
	Partition  int32
	Partitions int32 // how many the topic has
	// Offset is the next offset to process; -1 when the group has committed none.
	Offset   int64
	Metadata string
	// LogStart and LogEnd bound the offsets that can be read.
	LogStart, LogEnd int64
	TopicID          schemas.TopicID
}

// StoredOffset is the position of a consumer that stores its offsets itself.
type StoredOffset struct {
	// Next is the next offset to read; -1 when none is stored.
	Next int64
	// Topic is the topic that Next belongs to.
	Topic schemas.TopicID
	// Latest is the latest time of a record before Next; 0 = not known. If the log has a later one there, it is
	// not the log that the consumer has read.
	Latest schemas.Millis
}

// Last, in place of the offset from which to read, stands for the last n offsets.
func Last(n int64) (from int64) { return -1 - n }

// ReadFunc reads records of the topic's partition that a task belongs to, in order, from
// offset from (-1: the first; or Last) up to but without offset to (-1: the present end). Heartbeats are
// read uncommitted, other topics committed. It waits for transactions that are open before to,
// because a committed offset may show before the records that were committed with it. The
// record is valid until each returns; the error of each is returned unchanged.
type ReadFunc = func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error

// Outbox collects what a task writes while it handles a record. The loop passes it to the
// task and owns it again when the call returns.
type Outbox struct {
	// Records are committed in one transaction with the input's offset.
	Records []schemas.Outgoing
	// Forwards are written and acknowledged before that transaction ends, but outside of
	// it: the heartbeats topic is never written in a transaction.
	Forwards []schemas.Outgoing
	// Hints are written outside of the transaction without waiting for them. They are dropped
	// while too many are under way, and may be lost.
	Hints []schemas.Outgoing
	// Rejected are records that can never be decoded. They go to the dead-letter topic in
	// the same transaction, with their origin.
	Rejected []Rejected
}

// Rejected is a record that goes to the dead-letter topic, and why.
type Rejected struct {
	Record *schemas.Record
	// Topic is where the record was read; empty for the input of the loop.
	Topic  schemas.Topic
	Reason error
}

// Batch is a run of consecutive records of one partition, decoded, in order.
type Batch[T any] struct {
	Partition int32
	Items     []T
	// Next is the offset after the last record of the run. It is not the last item's offset
	// plus one: transaction markers and rejected records take offsets too.
	Next int64
	// Latest is the latest time of a record of the run, or of one before it; rejected ones count.
	Latest schemas.Millis
}

// Logged is a message together with its position in its topic.
type Logged[T any] struct {
	Partition int32
	Offset    int64
	Time      schemas.Millis
	Message   T
}

// DecodeTransition decodes a record of the transitions topic.
func DecodeTransition(r *schemas.Record) (Logged[*schemas.Transition], error) {
	t, err := schemas.DecodeTransition(r.Value)
	return Logged[*schemas.Transition]{Partition: r.Partition, Offset: r.Offset, Time: r.Time, Message: t}, err
}

// Package sink writes the transitions to the durable store, each exactly once.
package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// ErrStoreBehind says that the store's next offset is behind what this sink has written: the store
// has lost transactions, as by a failover to a lagging replica, or the topic was recreated. The
// consumer then reads the partition again from the store's offset.
var ErrStoreBehind error = lostPlace{}

// lostPlace has the method by which the consumer recognises it.
type lostPlace struct{}

func (lostPlace) Error() string {
	return "the store has lost writes; the partition is read again from the store's offset"
}
func (lostPlace) ResetPosition() bool { return true }

// Sink writes batches of transitions. It is a handler of the consumer: calls for one partition
// come one at a time and in order.
type Sink struct {
	store   store.Writer
	config  lastseen.Config
	metrics *lastseen.Metrics

	mu        sync.Mutex // protects the map
	positions map[int32]position
}

// position is the sink's state of a partition.
type position struct {
	// stored is the store's position as far as this sink knows; the store decides.
	stored store.Position
	// next is the next offset to write of topic, the one that is being read.
	next  int64
	topic schemas.TopicID
	// fresh: nothing has been applied since Start. A batch from before next then means that the log ends
	// before it, or is another one: it was restored from an older copy.
	fresh bool
	// restored: the log was, and its versions may be those of changes that the store has from the lost part. Nothing
	// is written before a version of a log epoch above the store's.
	restored bool
}

// New makes a sink. config must be valid.
func New(to store.Writer, config lastseen.Config, metrics *lastseen.Metrics) *Sink {
	return &Sink{store: to, config: config, metrics: metrics, positions: map[int32]position{}}
}

// Start takes up a partition. It returns the next offset to read, or store.Unknown, and the stored
// topic. If at is another topic, the store's position moves to its start.
func (s *Sink) Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	stored, err := s.store.Position(ctx, at.Partition)
	if err != nil {
		return stream.StoredOffset{}, err
	}
	before := stored.Topic
	if before.Differs(at.TopicID) {
		if stored, err = s.moveToTopic(ctx, stored, at); err != nil {
			return stream.StoredOffset{}, err
		}
	}
	s.setPosition(at.Partition, position{stored: stored, next: stored.Next, topic: at.TopicID, fresh: true})
	s.metrics.Awaited.Delete(lastseen.Sink, at.Partition)
	return stream.StoredOffset{Next: stored.Next, Topic: before, Latest: stored.Latest}, nil
}

// moveToTopic moves the store's position to the start of a recreated topic. From then on writers
// of the old topic are fenced.
func (s *Sink) moveToTopic(ctx context.Context, stored store.Position, at stream.Assignment) (store.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.WriteTimeout)
	defer cancel()
	err := s.store.Append(ctx, store.Batch{Partition: at.Partition, Expected: stored.Next, ExpectedTopic: stored.Topic, Next: at.LogStart, Topic: at.TopicID})
	if err != nil {
		return stored, fmt.Errorf("beginning with topic %s in position of %s: %w", at.TopicID, stored.Topic, err)
	}
	return store.Position{Next: at.LogStart, Topic: at.TopicID}, nil
}

// Stop forgets a partition and its gauge.
func (s *Sink) Stop(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.positions, partition)
	s.metrics.Awaited.Delete(lastseen.Sink, partition)
	s.metrics.SinkWrittenUpTo.DeleteLabelValues(lastseen.Partition(partition))
}

// Apply writes the batch and returns when it is durable. After an error the same batch may come
// again; nothing is written twice.
func (s *Sink) Apply(ctx context.Context, batch stream.Batch[stream.Logged[*schemas.Transition]]) error {
	at, err := s.position(ctx, batch.Partition)
	if err != nil {
		return err
	}
	if at.fresh && lastseen.StartsBefore(batch, at.next) {
		at.fresh, at.restored = false, true
		s.metrics.Awaited.Set(lastseen.Sink, batch.Partition, at.stored.LogEpoch)
	}
	if at.restored {
		if batch.Items = lastseen.Above(batch.Items, at.stored.LogEpoch); len(batch.Items) == 0 {
			s.setPosition(batch.Partition, at)
			return nil
		}
		at.next, at.restored = batch.Items[0].Offset, false
		s.metrics.Awaited.Delete(lastseen.Sink, batch.Partition)
	}
	for at.next < batch.Next {
		if at, err = s.write(ctx, at, s.part(at, batch)); err != nil {
			return err
		}
		s.setPosition(batch.Partition, at)
	}
	if n := len(batch.Items); n > 0 {
		s.metrics.SinkWrittenUpTo.WithLabelValues(lastseen.Partition(batch.Partition)).Set(float64(batch.Items[n-1].Time) / 1000)
	}
	return nil
}

// part is what fits into one transaction, from at.next on.
func (s *Sink) part(at position, batch stream.Batch[stream.Logged[*schemas.Transition]]) store.Batch {
	items := batch.Items
	for len(items) > 0 && items[0].Offset < at.next {
		items = items[1:]
	}
	part := store.Batch{Partition: batch.Partition, Next: batch.Next, Latest: max(at.stored.Latest, batch.Latest)}
	if rows := s.config.SinkRows; len(items) > rows {
		part.Next, items = items[rows].Offset, items[:rows]
	}
	part.Changes = make([]*schemas.Transition, 0, len(items))
	for _, item := range items {
		part.Changes = append(part.Changes, item.Message)
	}
	part.LogEpoch = lastseen.LogEpoch(items, at.stored.LogEpoch)
	return part
}

// write writes one transaction and returns the new position.
func (s *Sink) write(ctx context.Context, at position, part store.Batch) (position, error) {
	part.Expected, part.ExpectedTopic, part.Topic = at.stored.Next, at.stored.Topic, at.topic
	ctx, cancel := context.WithTimeout(ctx, s.config.WriteTimeout)
	defer cancel()
	started := time.Now()
	err := s.store.Append(ctx, part)
	s.metrics.SinkWriteTime.Observe(time.Since(started).Seconds())
	switch {
	case err == nil:
		s.count(lastseen.Written)
		s.metrics.SinkRows.Add(float64(len(part.Changes)))
		s.metrics.SinkBatch.Observe(float64(len(part.Changes)))
		at.fresh, at.next = false, part.Next
		at.stored = store.Position{Next: part.Next, Topic: at.topic, Latest: part.Latest, LogEpoch: part.LogEpoch}
		return at, nil
	case errors.Is(err, store.ErrFenced):
		return s.resumeAfterFence(ctx, at, part, err)
	case errors.Is(err, store.ErrRefused):
		s.count(lastseen.Refused)
	default:
		s.count(lastseen.Unavailable)
	}
	return at, err
}

// resumeAfterFence continues from the store's position after a fenced write. If the store is
// ahead, an earlier attempt of unknown outcome or another owner has written the offsets between.
func (s *Sink) resumeAfterFence(ctx context.Context, at position, part store.Batch, cause error) (position, error) {
	s.count(lastseen.Fenced)
	stored, err := s.store.Position(ctx, part.Partition)
	if err != nil {
		return at, errors.Join(cause, err)
	}
	switch {
	case at.topic.Differs(stored.Topic):
		return at, fmt.Errorf("partition %d: the store has moved to topic %s, this sink reads %s: %w", part.Partition, stored.Topic, at.topic, ErrStoreBehind)
	case stored.Next == at.stored.Next && stored.Topic == at.stored.Topic:
		return at, cause
	case stored.Next < at.next:
		return at, fmt.Errorf("partition %d: next offset is %d in the store, %d here: %w", part.Partition, stored.Next, at.next, ErrStoreBehind)
	}
	s.count(lastseen.AlreadyWritten)
	at.fresh, at.stored, at.next = false, stored, stored.Next
	return at, nil
}

// position is where the partition is, asked from the store when Start was not
// called.
func (s *Sink) position(ctx context.Context, partition int32) (position, error) {
	s.mu.Lock()
	at, known := s.positions[partition]
	s.mu.Unlock()
	if known {
		return at, nil
	}
	stored, err := s.store.Position(ctx, partition)
	return position{stored: stored, next: stored.Next, topic: stored.Topic}, err
}

func (s *Sink) setPosition(partition int32, at position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.positions[partition] = at
}

func (s *Sink) count(result string) { s.metrics.SinkWrites.WithLabelValues(result).Inc() }

// Package sink writes the transitions to the durable store, each exactly once.
package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// ErrLostPlace says that the store's next offset of a partition is behind what
// this sink has written: the store has lost transactions, as by a failover to a
// replica that lacked them; or that it is one of another topic, for that was made
// anew. Only reading again from there repairs it, which is what happens when the
// partition is started anew.
var ErrLostPlace error = lostPlace{}

// lostPlace has the method by which the Kafka loop knows what helps.
type lostPlace struct{}

func (lostPlace) Error() string {
	return "the store has lost what was written; the partition is to be started anew"
}
func (lostPlace) StartAnew() bool { return true }

// Sink takes batches of transitions. It is a handler for the Kafka loop: calls
// for one partition come one at a time and in order.
type Sink struct {
	store   store.Writer
	config  lastseen.Config
	metrics *lastseen.Metrics

	mu     sync.Mutex // protects the map
	places map[int32]place
}

// place is where a partition is.
type place struct {
	// kept is what the store holds, as far as this sink knows; the store is decisive.
	kept store.Place
	// next is the next offset to be written of topic, which is the one that is read.
	next  int64
	topic schemas.TopicID
	// fresh: nothing has been applied since Start. A batch from before next means
	// then that next was not in the log any more, because the log was cut back, and
	// the loop had to go elsewhere; the store follows it.
	fresh bool
}

// New makes a sink. The config has been validated.
func New(to store.Writer, config lastseen.Config, metrics *lastseen.Metrics) *Sink {
	return &Sink{store: to, config: config, metrics: metrics, places: map[int32]place{}}
}

// Start is called when a partition is taken up and tells the next offset to be
// read, or store.Unknown, and the topic of which the store has kept one. When at
// is another topic, the store's place is moved to its start.
func (s *Sink) Start(ctx context.Context, at schemas.Commit) (schemas.Kept, error) {
	kept, err := s.store.Place(ctx, at.Partition)
	if err != nil {
		return schemas.Kept{}, err
	}
	before := kept.Topic
	if before.Differs(at.TopicID) {
		if kept, err = s.begin(ctx, kept, at); err != nil {
			return schemas.Kept{}, err
		}
	}
	next := kept.Of(at.TopicID)
	if next < at.LogStart {
		// What retention has taken since was written, if only by a program that knows no topics.
		next = min(kept.Next, at.LogStart)
	}
	s.remember(at.Partition, place{kept: kept, next: next, topic: at.TopicID, fresh: true})
	return schemas.Kept{Next: next, Topic: before}, nil
}

// begin moves the store's place to the start of a topic that was made anew. From
// then on whoever still writes what was in the old one is fenced.
func (s *Sink) begin(ctx context.Context, kept store.Place, at schemas.Commit) (store.Place, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.WriteTimeout)
	defer cancel()
	err := s.store.Append(ctx, store.Batch{Partition: at.Partition, Expected: kept.Next, ExpectedTopic: kept.Topic, Next: at.LogStart, Topic: at.TopicID})
	if err != nil {
		return kept, fmt.Errorf("beginning with topic %s in place of %s: %w", at.TopicID, kept.Topic, err)
	}
	return store.Place{Next: at.LogStart, Topic: at.TopicID, TopicNext: at.LogStart}, nil
}

// Stop is called when a partition is given up.
func (s *Sink) Stop(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.places, partition)
	s.metrics.SinkWrittenUpTo.DeleteLabelValues(lastseen.Partition(partition))
}

// Apply writes the batch and returns when it is durable. After an error the same
// batch may come again; what of it is written already is not written twice.
func (s *Sink) Apply(ctx context.Context, batch schemas.Batch[schemas.Logged[*schemas.Transition]]) error {
	at, err := s.place(ctx, batch.Partition)
	if err != nil {
		return err
	}
	if at.fresh && startsBefore(batch, at.next) {
		at.next = 0
	}
	for at.next < batch.Next {
		if at, err = s.write(ctx, at, s.part(batch, at.next)); err != nil {
			return err
		}
		s.remember(batch.Partition, at)
	}
	if n := len(batch.Items); n > 0 {
		s.metrics.SinkWrittenUpTo.WithLabelValues(lastseen.Partition(batch.Partition)).Set(float64(batch.Items[n-1].Time) / 1000)
	}
	return nil
}

func startsBefore(batch schemas.Batch[schemas.Logged[*schemas.Transition]], offset int64) bool {
	return batch.Next < offset || len(batch.Items) > 0 && batch.Items[0].Offset < offset
}

// part is as much of the batch, from an offset on, as goes into one transaction.
func (s *Sink) part(batch schemas.Batch[schemas.Logged[*schemas.Transition]], from int64) store.Batch {
	part := store.Batch{Partition: batch.Partition, Next: batch.Next,
		Changes: make([]*schemas.Transition, 0, min(len(batch.Items), s.config.SinkRows))}
	for _, item := range batch.Items {
		if item.Offset < from {
			continue
		}
		if len(part.Changes) == s.config.SinkRows {
			part.Next = item.Offset
			break
		}
		part.Changes = append(part.Changes, item.Message)
	}
	return part
}

// write writes one transaction and returns where the partition is after it.
func (s *Sink) write(ctx context.Context, at place, part store.Batch) (place, error) {
	part.Expected, part.ExpectedTopic, part.Topic = at.kept.Next, at.kept.Topic, at.topic
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
		at.kept = store.Place{Next: part.Next, Topic: at.kept.Topic, TopicNext: at.kept.TopicNext}
		if at.topic.Known() {
			at.kept.Topic, at.kept.TopicNext = at.topic, part.Next
		}
		return at, nil
	case errors.Is(err, store.ErrFenced):
		return s.fenced(ctx, at, part, err)
	case errors.Is(err, store.ErrRefused):
		s.count(lastseen.Refused)
	default:
		s.count(lastseen.Unavailable)
	}
	return at, err
}

// fenced goes on from the store's place after part was not written because that is
// not the one expected. When it is ahead, what lies between has been written, by an
// attempt of our own whose outcome was unknown or by another owner, and the log is
// the same for all who name its topic. What an owner has written who names none is
// written again: it may have been reading another one.
func (s *Sink) fenced(ctx context.Context, at place, part store.Batch, cause error) (place, error) {
	s.count(lastseen.Fenced)
	kept, err := s.store.Place(ctx, part.Partition)
	if err != nil {
		return at, errors.Join(cause, err)
	}
	next := kept.Of(at.topic)
	if at.topic.Known() && !kept.Topic.Known() {
		next = min(kept.Next, at.next)
	}
	switch {
	case at.topic.Differs(kept.Topic):
		return at, fmt.Errorf("partition %d: the store has begun with topic %s, here is %s: %w", part.Partition, kept.Topic, at.topic, ErrLostPlace)
	case kept.Next == at.kept.Next && kept.Topic == at.kept.Topic:
		return at, cause
	case next < at.next:
		return at, fmt.Errorf("partition %d: next offset is %d in the store, %d here: %w", part.Partition, next, at.next, ErrLostPlace)
	}
	s.count(lastseen.AlreadyWritten)
	at.fresh, at.kept, at.next = false, kept, next
	return at, nil
}

// place is where the partition is, asked from the store when Start was not
// called.
func (s *Sink) place(ctx context.Context, partition int32) (place, error) {
	s.mu.Lock()
	at, known := s.places[partition]
	s.mu.Unlock()
	if known {
		return at, nil
	}
	kept, err := s.store.Place(ctx, partition)
	return place{kept: kept, next: kept.Next}, err
}

func (s *Sink) remember(partition int32, at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[partition] = at
}

func (s *Sink) count(result string) { s.metrics.SinkWrites.WithLabelValues(result).Inc() }

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
// replica that lacked them. Only reading again from there repairs it, which is
// what happens when the partition is started anew.
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
	// next is the next offset to be written by this sink's own knowledge; what the
	// store holds is decisive.
	next int64
	// fresh: nothing has been applied since Start. A batch from before next means
	// then that next was not in the log any more, because the topic was made anew,
	// and the loop had to go elsewhere; the store follows it.
	fresh bool
}

// New makes a sink. The config has been validated.
func New(to store.Writer, config lastseen.Config, metrics *lastseen.Metrics) *Sink {
	return &Sink{store: to, config: config, metrics: metrics, places: map[int32]place{}}
}

// Start is called when a partition is taken up and tells the next offset that
// the store expects, or store.Unknown.
func (s *Sink) Start(ctx context.Context, partition int32) (int64, error) {
	next, err := s.store.NextOffset(ctx, partition)
	if err != nil {
		return store.Unknown, err
	}
	s.remember(partition, place{next: next, fresh: true})
	return next, nil
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
	for first := true; first && at.fresh && startsBefore(batch, at.next) || at.next < batch.Next; first = false {
		part := s.part(batch, at)
		next, err := s.write(ctx, part)
		if err != nil {
			return err
		}
		at = place{next: next}
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

// part is as much of the batch, from its place on, as goes into one transaction.
func (s *Sink) part(batch schemas.Batch[schemas.Logged[*schemas.Transition]], at place) store.Batch {
	from := at.next
	if at.fresh && startsBefore(batch, from) {
		from = 0
	}
	part := store.Batch{Partition: batch.Partition, Expected: at.next, Next: batch.Next,
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

// write writes one transaction and returns the store's next offset after it.
func (s *Sink) write(ctx context.Context, part store.Batch) (int64, error) {
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
		return part.Next, nil
	case errors.Is(err, store.ErrFenced):
		return s.fenced(ctx, part, err)
	case errors.Is(err, store.ErrRefused):
		s.count(lastseen.Refused)
	default:
		s.count(lastseen.Unavailable)
	}
	return part.Expected, err
}

// fenced goes on from the store's next offset after part was not written because
// that is not the one expected. When it is ahead, what lies between has been
// written, by an attempt of our own whose outcome was unknown or by another
// owner, and the log is the same for all.
func (s *Sink) fenced(ctx context.Context, part store.Batch, cause error) (int64, error) {
	s.count(lastseen.Fenced)
	next, err := s.store.NextOffset(ctx, part.Partition)
	switch {
	case err != nil:
		return part.Expected, errors.Join(cause, err)
	case next > part.Expected, next == part.Next:
		s.count(lastseen.AlreadyWritten)
		return next, nil
	case next == part.Expected:
		return part.Expected, cause
	default:
		return part.Expected, fmt.Errorf("partition %d: next offset is %d in the store, %d here: %w", part.Partition, next, part.Expected, ErrLostPlace)
	}
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
	next, err := s.store.NextOffset(ctx, partition)
	return place{next: next}, err
}

func (s *Sink) remember(partition int32, at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[partition] = at
}

func (s *Sink) count(result string) { s.metrics.SinkWrites.WithLabelValues(result).Inc() }

package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// applied is the part of a Store that an Applier needs.
type applied interface {
	Loaded(ctx context.Context, name string) (int64, error)
	Apply(ctx context.Context, log string, from, to int64, add, remove []Edge) (added, removed int64, err error)
}

// Applier applies presence.graph to a Store. It is a handler of a consumer. The position of each
// partition is in the store and moves in the transaction that changes the edges: each record takes
// effect once, also after a restart, and a backup of the database that is restored continues from
// its own position. A process that lost the partition and does not know it is fenced.
type Applier struct {
	store   applied
	topic   string
	changes *prometheus.CounterVec

	mu        sync.Mutex // protects the map
	positions map[int32]logPosition
}

// logPosition is the progress in one partition.
type logPosition struct {
	log    string // the partition's name in the store
	stored int64  // the position in the store, as far as known; 0: none
	next   int64  // everything before this offset is in the store
}

// errMoved says that the store's position is another than the Applier's. The consumer then asks
// Start again.
var errMoved error = moved{}

type moved struct{}

func (moved) Error() string {
	return "another process applies the partition too, or the database was restored; reading from the stored position"
}
func (moved) ResetPosition() bool { return true }

// NewApplier makes an Applier. topic is the topic's name in the cluster.
func NewApplier(store applied, topic string, registry prometheus.Registerer) *Applier {
	changes := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: "stillhere_graph_topic_edges_total",
		Help: "Edges of the follower graph that records of presence.graph changed, by change: added, removed."}, []string{"change"})
	return &Applier{store: store, topic: topic, changes: changes, positions: map[int32]logPosition{}}
}

// DecodeFollow decodes a record of the topic.
func DecodeFollow(r *schemas.Record) (schemas.Follow, error) {
	return schemas.DecodeFollow(r.Key, r.Value)
}

// Start returns the stored position. A recreated topic has another id, so it has none. A position
// beyond the end belongs to records that the cluster has lost: the partition is read from its start.
func (a *Applier) Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	p := logPosition{log: fmt.Sprintf("%s %s partition %d", a.topic, at.TopicID, at.Partition)}
	var err error
	if p.stored, err = a.store.Loaded(ctx, p.log); err != nil {
		return stream.StoredOffset{}, err
	}
	if p.next = max(p.stored, at.LogStart); p.stored > at.LogEnd {
		p.next = at.LogStart
	}
	a.setPosition(at.Partition, p)
	return stream.StoredOffset{Next: p.next, Topic: at.TopicID}, nil
}

// Stop forgets a partition.
func (a *Applier) Stop(partition int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.positions, partition)
}

// Apply changes the edges that the batch names, each to what its last record says.
func (a *Applier) Apply(ctx context.Context, batch stream.Batch[schemas.Follow]) error {
	a.mu.Lock()
	p, known := a.positions[batch.Partition]
	a.mu.Unlock()
	if !known {
		return errMoved
	}
	if batch.Next <= p.next {
		return nil
	}
	last := make(map[Edge]bool, len(batch.Items)) // whether it is removed
	for _, f := range batch.Items {
		last[Edge{f.User, f.Follower}] = f.Removed
	}
	var add, remove []Edge
	for _, e := range slices.SortedFunc(maps.Keys(last), compareEdges) {
		if last[e] {
			remove = append(remove, e)
		} else {
			add = append(add, e)
		}
	}
	added, removed, err := a.store.Apply(ctx, p.log, p.stored, batch.Next, add, remove)
	if errors.Is(err, ErrConcurrentLoad) {
		return a.compare(ctx, batch, p)
	}
	if err != nil {
		return err
	}
	a.changes.WithLabelValues("added").Add(float64(added))
	a.changes.WithLabelValues("removed").Add(float64(removed))
	a.setPosition(batch.Partition, logPosition{p.log, batch.Next, batch.Next})
	return nil
}

// compare is called after a fenced batch. An earlier attempt may have been committed although the
// database did not answer.
func (a *Applier) compare(ctx context.Context, batch stream.Batch[schemas.Follow], p logPosition) error {
	stored, err := a.store.Loaded(ctx, p.log)
	if err != nil {
		return err
	}
	if stored != batch.Next {
		return errMoved
	}
	a.setPosition(batch.Partition, logPosition{p.log, stored, stored})
	return nil
}

func (a *Applier) setPosition(partition int32, p logPosition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.positions[partition] = p
}

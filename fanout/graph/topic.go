package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// applied is the part of a Store that an Applier needs.
type applied interface {
	Loaded(ctx context.Context, name string) (int64, error)
	Apply(ctx context.Context, log string, from, to int64, add, remove []Edge, names Names) (added, removed int64, err error)
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
		Help: "Edges of the follower graph that records of presence.graph changed, by change: added, removed, refused (two users' names have one id)."}, []string{"change"})
	return &Applier{store: store, topic: topic, changes: changes, positions: map[int32]logPosition{}}
}

// DecodeFollow returns the decoder of the topic's records. If users have names, an edge without both
// names is refused, and one whose ids are not those of the names.
func DecodeFollow(users identity.Users) func(r *schemas.Record) (schemas.Follow, error) {
	return func(r *schemas.Record) (schemas.Follow, error) {
		f, err := schemas.DecodeFollow(r.Key, r.Value)
		named := f.Names != [2]schemas.Name{}
		switch {
		case err != nil || f.Removed:
		case !users.Text() && named:
			err = &schemas.FieldError{Code: "names_in_int_mode", Field: "user_name", Reason: "must be empty: users of this pipeline have no names"}
		case users.Text() && !named:
			err = &schemas.FieldError{Code: "name_missing", Field: "user_name", Reason: "must be the user's name, and follower_name the follower's"}
		case users.Text() && !users.Is(f.User, f.Names[0]):
			err = &schemas.FieldError{Code: "id_mismatch", Field: "user_id", Reason: "must be the id of tenant and user_name under the identity key"}
		case users.Text() && !users.Is(f.Follower, f.Names[1]):
			err = &schemas.FieldError{Code: "id_mismatch", Field: "follower_id", Reason: "must be the id of tenant and follower_name under the identity key"}
		}
		return f, err
	}
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
	last := make(map[Edge]schemas.Follow, len(batch.Items))
	for _, f := range batch.Items {
		last[Edge{f.User, f.Follower}] = f
	}
	added, removed, err := a.apply(ctx, p, batch.Next, last)
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

// apply writes the newest record of each edge. It refuses edges of a name that has the id of another.
func (a *Applier) apply(ctx context.Context, p logPosition, next int64, last map[Edge]schemas.Follow) (added, removed int64, err error) {
	for {
		var add, remove []Edge
		var names Names
		err = nil
		for _, e := range slices.SortedFunc(maps.Keys(last), compareEdges) {
			f := last[e]
			if f.Removed {
				remove = append(remove, e)
				continue
			}
			add = append(add, e)
			if f.Names[0] == (schemas.Name{}) {
				continue
			}
			if names == nil {
				names = Names{}
			}
			err = cmp.Or(err, names.Add(f.User, f.Names[0]), names.Add(f.Follower, f.Names[1]))
		}
		if err == nil {
			added, removed, err = a.store.Apply(ctx, p.log, p.stored, next, add, remove, names)
		}
		var collision *CollisionError
		if !errors.As(err, &collision) {
			return added, removed, err
		}
		maps.DeleteFunc(last, func(e Edge, f schemas.Follow) bool {
			refused := !f.Removed && (e.User == collision.User || e.Follower == collision.User)
			if refused {
				a.changes.WithLabelValues("refused").Inc()
			}
			return refused
		})
	}
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

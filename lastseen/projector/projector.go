// Package projector keeps the current status of users in Redis.
package projector

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Statuses reads a partition of the status topic from its start to its end at the time of the
// call, read committed. It calls each for the newest record of every user, except tombstones, in
// any order, and returns the first error. It must not return a record that a tombstone deletes:
// the rebuild would bring the user back.
type Statuses func(ctx context.Context, partition int32, each func(schemas.Status) error) error

// Projector writes transitions to Redis. It is a handler of the consumer: calls for one
// partition come one at a time and in order.
type Projector struct {
	view     *redisview.View
	statuses Statuses
	durable  Users // nil: a rebuild has only the statuses, and lists of denied viewers that Redis lost stay lost
	config   lastseen.Config
	metrics  *lastseen.Metrics
	log      *slog.Logger
	now      func() time.Time

	mu         sync.Mutex // protects the maps, not what they point to
	partitions map[int32]*partition
	seen       map[int32]bool // partitions that were ever taken up
}

// partition is the projector's state of a partition, owned by the partition's goroutine.
type partition struct {
	number int32
	// progress is the one in Redis, as far as this projector knows.
	progress redisview.Progress
	// ready: Redis knew the partition, or was rebuilt. Start does not rebuild, because it holds up
	// other partitions.
	ready bool
	// neverFilled: nobody has ever written the partition to this Redis, so that its absence is no
	// loss.
	neverFilled bool
	// fresh: nothing has been applied since Start. A batch from before the progress then means that the log ends
	// before it, or is another one: it was restored from an older copy.
	fresh bool
	// restored: the log was. Redis and its progress stay as they are, so that reads say stale, until a version of a
	// log epoch above the progress comes; then Redis is rebuilt.
	restored bool
	// last is the newest batch. When a rebuild begins now, the statuses of these users may not be
	// readable yet: a transaction becomes visible partition by partition.
	last []store.Update
	// denies are the changes of that batch that deny viewers, and erasures.
	denies []*schemas.Transition
}

// Users reads from the durable store (store.Reader). It knows what a status does not have: the
// version at which a user hid, the times of hidden users that may be shown, and whom users deny.
type Users interface {
	Users(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error)
	DeniedBy(ctx context.Context, user, after schemas.UserID, limit int) (list []schemas.Denial, audience schemas.Version, err error)
}

// WithStore makes rebuilds and Watermark read the durable store. Call it before the first batch.
func (p *Projector) WithStore(durable Users) *Projector {
	p.durable = durable
	return p
}

// New makes a projector. config must be valid.
func New(view *redisview.View, statuses Statuses, config lastseen.Config, metrics *lastseen.Metrics, log *slog.Logger) *Projector {
	return &Projector{view: view, statuses: statuses, config: config, metrics: metrics, log: log, now: time.Now,
		partitions: map[int32]*partition{}, seen: map[int32]bool{}}
}

// Start takes up a partition. It returns the next offset that Redis needs, or -1, and its topic.
// The offset may be older than the group's: then Redis has lost writes while nobody watched, and
// reading from there repairs it. If Redis does not know the partition, the next call rebuilds it.
// If at is another topic, the progress moves to its start.
func (p *Projector) Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	progress, topic, err := p.view.ProgressAndTopic(ctx, at.Partition)
	if err != nil {
		return stream.StoredOffset{}, err
	}
	known := progress != (redisview.Progress{}) && !progress.Rebuilding
	if at.TopicID.Known() && at.TopicID != topic {
		to := progress
		if known && topic.Known() {
			to.Next = at.LogStart
		}
		found, err := p.view.MoveWithTopic(ctx, at.Partition, progress, to, at.TopicID)
		if err != nil {
			return stream.StoredOffset{}, err
		}
		if found != to {
			return stream.StoredOffset{}, fmt.Errorf("another projector moves the progress of partition %d too", at.Partition)
		}
		progress = to
	}
	part := &partition{number: at.Partition, progress: progress, ready: true, fresh: true}
	if !known {
		part.progress, part.ready = redisview.Progress{Next: store.Unknown}, false
	}
	part.restored = part.progress.Next > at.LogEnd // what it has may never change again, so no batch would say it
	p.mu.Lock()
	defer p.mu.Unlock()
	part.neverFilled = at.Offset < 0 || p.config.NewRedis && !p.seen[at.Partition]
	p.seen[at.Partition] = true
	p.partitions[at.Partition] = part
	p.report(part)
	return stream.StoredOffset{Next: part.progress.Next, Topic: topic, Latest: part.progress.Latest}, nil
}

// Stop forgets a partition and its gauge.
func (p *Projector) Stop(number int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.partitions, number)
	p.metrics.Awaited.Delete(lastseen.Projector, number)
	p.metrics.ProjectorWatermark.DeleteLabelValues(lastseen.Partition(number))
}

// Apply writes the batch and returns when Redis has it. After an error the same batch may come
// again.
func (p *Projector) Apply(ctx context.Context, batch stream.Batch[stream.Logged[*schemas.Transition]]) error {
	part, err := p.partition(ctx, batch.Partition)
	if err != nil {
		return err
	}
	if part.fresh && lastseen.StartsBefore(batch, part.progress.Next) {
		part.restored = true
		p.report(part)
	}
	part.fresh = false
	if part.restored {
		if batch.Items = lastseen.Above(batch.Items, part.progress.LogEpoch); len(batch.Items) == 0 {
			return nil
		}
	}
	changes := make([]*schemas.Transition, len(batch.Items))
	for i, item := range batch.Items {
		changes[i] = item.Message
	}
	part.last = store.Fold(changes)
	part.denies = slices.DeleteFunc(changes, func(t *schemas.Transition) bool { return t.Denies == "" && t.Cause != schemas.Erased })
	to := part.progress
	to.Latest, to.LogEpoch = max(to.Latest, batch.Latest), lastseen.LogEpoch(batch.Items, to.LogEpoch)
	if part.restored {
		return p.replace(ctx, part, batch.Next, to)
	}
	if err := p.write(ctx, part, part.progress.Epoch); err != nil {
		return err
	}
	to.Next = max(to.Next, batch.Next)
	return p.move(ctx, part, to)
}

// replace rebuilds Redis from the statuses of a restored log.
func (p *Projector) replace(ctx context.Context, part *partition, next int64, to redisview.Progress) error {
	found, err := p.view.Progress(ctx, part.number)
	if err != nil {
		return err
	}
	to.Next = next
	if err := p.rebuild(ctx, part, found, to); err != nil {
		return err
	}
	part.restored = false
	p.report(part)
	return nil
}

// report says whether the partition waits for a log epoch.
func (p *Projector) report(part *partition) {
	if part.restored {
		p.metrics.Awaited.Set(lastseen.Projector, part.number, part.progress.LogEpoch)
	} else {
		p.metrics.Awaited.Delete(lastseen.Projector, part.number)
	}
}

// Watermark records that everything up to this log time has been applied. It also fills lists of denied viewers.
func (p *Projector) Watermark(ctx context.Context, number int32, logTime schemas.Millis) error {
	part, err := p.partition(ctx, number)
	if err != nil {
		return err
	}
	if part.restored {
		return nil
	}
	to := part.progress
	to.Watermark = max(to.Watermark, logTime)
	if err := p.move(ctx, part, to); err != nil {
		return err
	}
	if err := p.fillLists(ctx); err != nil {
		p.log.WarnContext(ctx, "lists of denied viewers are missing in Redis; reads of these users ask the durable store", "error", err)
	}
	return nil
}

// fillLists reads lists of denied viewers that somebody missed in Redis, of users of any partition: whoever writes one,
// its version decides. A list that is not written is missed again by the next reader.
func (p *Projector) fillLists(ctx context.Context) error {
	if p.durable == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.ReadTimeout)
	defer cancel()
	users, err := p.view.TakeWanted(ctx, listsPerCall)
	if err != nil {
		return err
	}
	for _, user := range users {
		list, audience, err := p.durable.DeniedBy(ctx, user, 0, store.All)
		if err == nil && audience != 0 {
			err = p.view.FillDenied(ctx, user, audience, list)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listsPerCall bounds how long a partition waits for the lists.
const listsPerCall = 20

// write writes the partition's last batch under the given epoch. A list of denied viewers is written before an entry that
// needs it.
func (p *Projector) write(ctx context.Context, part *partition, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
	defer cancel()
	err := p.view.WriteDenies(ctx, part.denies)
	written := 0
	if err == nil {
		written, err = p.view.Write(ctx, epoch, part.last)
	}
	if err != nil {
		return fmt.Errorf("partition %d: %w", part.number, err)
	}
	p.metrics.ProjectorUpdates.WithLabelValues("written").Add(float64(written))
	p.metrics.ProjectorUpdates.WithLabelValues("older").Add(float64(len(part.last) - written))
	return nil
}

// move changes the progress in Redis to to. Less progress or none in Redis means that Redis has
// lost writes; so does, in a cluster, a node without sentinel keys.
func (p *Projector) move(ctx context.Context, part *partition, to redisview.Progress) error {
	found, err := p.compareAndMove(ctx, part.number, part.progress, to)
	switch {
	case err != nil:
		return err
	case found == to:
		p.setProgress(part, found)
		if found.Epoch < p.view.IntactSince(ctx) {
			return p.rebuild(ctx, part, found, to)
		}
		return nil
	case ahead(found, part.progress):
		return p.adoptProgress(ctx, part, found, to)
	default:
		return p.rebuild(ctx, part, found, to)
	}
}

// compareAndMove is View.Move with a timeout.
func (p *Projector) compareAndMove(ctx context.Context, number int32, from, to redisview.Progress) (redisview.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
	defer cancel()
	return p.view.Move(ctx, number, from, to)
}

// ahead reports whether found came after progress without a rebuild, or by a rebuild that has ended.
func ahead(found, progress redisview.Progress) bool {
	if found.Rebuilding || found.Epoch != progress.Epoch {
		return !found.Rebuilding && found.Epoch > progress.Epoch
	}
	return found.Watermark >= progress.Watermark && found.Next >= progress.Next
}

// adoptProgress continues from progress that somebody else has made: an earlier attempt whose
// answer was lost, or a second owner of the partition.
func (p *Projector) adoptProgress(ctx context.Context, part *partition, found, to redisview.Progress) error {
	again := found.Epoch != part.progress.Epoch
	part.progress = found
	if again {
		// Written under an epoch that no longer counts.
		if err := p.write(ctx, part, found.Epoch); err != nil {
			return err
		}
	}
	merged := redisview.Progress{Epoch: found.Epoch, Watermark: max(found.Watermark, to.Watermark), Next: max(found.Next, to.Next),
		Latest: max(found.Latest, to.Latest), LogEpoch: max(found.LogEpoch, to.LogEpoch)}
	moved, err := p.compareAndMove(ctx, part.number, found, merged)
	switch {
	case err != nil:
		return err
	case moved != merged:
		return fmt.Errorf("another projector moves the progress of partition %d too", part.number)
	}
	p.setProgress(part, merged)
	return nil
}

func (p *Projector) setProgress(part *partition, progress redisview.Progress) {
	part.progress = progress
	p.metrics.ProjectorWatermark.WithLabelValues(lastseen.Partition(part.number)).Set(float64(progress.Watermark) / 1000)
}

// partition returns the state of a partition and rebuilds Redis first if necessary.
func (p *Projector) partition(ctx context.Context, number int32) (*partition, error) {
	part := p.lookup(number)
	if part == nil {
		if _, err := p.Start(ctx, stream.Assignment{Partition: number}); err != nil {
			return nil, err
		}
		part = p.lookup(number)
	}
	if part.ready {
		return part, nil
	}
	found, err := p.view.Progress(ctx, number)
	if err != nil {
		return nil, err
	}
	if err := p.rebuild(ctx, part, found, part.progress); err != nil {
		return nil, err
	}
	part.ready = true
	return part, nil
}

func (p *Projector) lookup(number int32) *partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.partitions[number]
}

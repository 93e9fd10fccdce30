// Package projector keeps the current status of users in Redis.
package projector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Statuses reads the status topic's partition from its start to what is its end
// when it is called, read committed, calls each for the newest record of every
// user, unless that is a tombstone, in any order, and returns the first error of
// each or of its own. A record that an older one would outlive, because its
// tombstone was skipped, would bring users back who have gone.
type Statuses func(ctx context.Context, partition int32, each func(schemas.Status) error) error

// Projector takes batches of transitions to Redis. It is a handler for the Kafka
// loop: calls for one partition come one at a time and in order.
type Projector struct {
	view     *redisview.View
	statuses Statuses
	durable  Users // nil: a rebuild has the statuses alone
	config   lastseen.Config
	metrics  *lastseen.Metrics
	log      *slog.Logger
	now      func() time.Time

	mu         sync.Mutex // protects the maps, not what they point to
	partitions map[int32]*partition
	met        map[int32]bool // partitions that were ever taken up
}

// partition is what the projector remembers of one; owned by the partition's
// goroutine.
type partition struct {
	number int32
	// mark is the one in Redis, as far as this projector knows.
	mark redisview.Mark
	// begun: Redis was found to know the partition, or was rebuilt. Not done by
	// Start, which holds up other partitions.
	begun bool
	// unfilled: nobody has ever put the partition into this Redis, so that it has
	// nothing of it is no loss.
	unfilled bool
	// fresh: nothing has been applied since Start. A batch from before the mark
	// means then that the topic was made anew; the mark follows it.
	fresh bool
	// last is what was written last. The status of these users may not be readable
	// yet when a rebuild begins right now: a transaction becomes visible partition
	// by partition.
	last []store.Update
}

// Users reads from the durable store; store.Reader has it. It knows what a status does not
// tell: the version at which a user hid, and the times that may be shown of one who did.
type Users interface {
	Users(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error)
}

// Knowing has rebuilds ask the durable store. Call it before the first batch.
func (p *Projector) Knowing(durable Users) *Projector {
	p.durable = durable
	return p
}

// New makes a projector. The config has been validated.
func New(view *redisview.View, statuses Statuses, config lastseen.Config, metrics *lastseen.Metrics, log *slog.Logger) *Projector {
	return &Projector{view: view, statuses: statuses, config: config, metrics: metrics, log: log, now: time.Now,
		partitions: map[int32]*partition{}, met: map[int32]bool{}}
}

// Start is called when a partition is taken up and tells the next offset up to
// which Redis has got, or -1, and of which topic. That offset may be older than the
// group's: then Redis has lost writes while nobody was looking, and reading on from
// there repairs it. A Redis that does not know the partition is rebuilt by the call
// after it. When at is another topic, the mark is moved to its start.
func (p *Projector) Start(ctx context.Context, at schemas.Commit) (schemas.Kept, error) {
	mark, topic, err := p.view.Place(ctx, at.Partition)
	if err != nil {
		return schemas.Kept{}, err
	}
	known := mark != (redisview.Mark{}) && !mark.Rebuilding
	if at.TopicID.Known() && at.TopicID != topic {
		to := mark
		if known && topic.Known() {
			to.Next = at.LogStart
		}
		found, err := p.view.Begin(ctx, at.Partition, mark, to, at.TopicID)
		if err != nil {
			return schemas.Kept{}, err
		}
		if found != to {
			return schemas.Kept{}, fmt.Errorf("the mark of partition %d is moved by somebody else too", at.Partition)
		}
		mark = to
	}
	part := &partition{number: at.Partition, mark: mark, begun: true, fresh: true}
	if !known {
		part.mark, part.begun = redisview.Mark{Next: store.Unknown}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	part.unfilled = at.Offset < 0 || p.config.NewRedis && !p.met[at.Partition]
	p.met[at.Partition] = true
	p.partitions[at.Partition] = part
	return schemas.Kept{Next: part.mark.Next, Topic: topic}, nil
}

// Stop is called when a partition is given up.
func (p *Projector) Stop(number int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.partitions, number)
	p.metrics.ProjectorWatermark.DeleteLabelValues(lastseen.Partition(number))
}

// Apply writes the batch and returns when Redis has it. After an error the same
// batch may come again.
func (p *Projector) Apply(ctx context.Context, batch schemas.Batch[schemas.Logged[*schemas.Transition]]) error {
	part, err := p.partition(ctx, batch.Partition)
	if err != nil {
		return err
	}
	changes := make([]*schemas.Transition, len(batch.Items))
	for i, item := range batch.Items {
		changes[i] = item.Message
	}
	part.last = store.Fold(changes)
	if err := p.write(ctx, part, part.mark.Epoch); err != nil {
		return err
	}
	to := part.mark
	if part.fresh || batch.Next > to.Next {
		to.Next = batch.Next
	}
	if err := p.move(ctx, part, to); err != nil {
		return err
	}
	part.fresh = false
	return nil
}

// Watermark says that everything up to this log time has been applied.
func (p *Projector) Watermark(ctx context.Context, number int32, logTime schemas.Millis) error {
	part, err := p.partition(ctx, number)
	if err != nil {
		return err
	}
	to := part.mark
	to.Watermark = max(to.Watermark, logTime)
	return p.move(ctx, part, to)
}

// write writes what the partition's last batch says, under the given epoch.
func (p *Projector) write(ctx context.Context, part *partition, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
	defer cancel()
	written, err := p.view.Write(ctx, epoch, part.last)
	if err != nil {
		return fmt.Errorf("partition %d: %w", part.number, err)
	}
	p.metrics.ProjectorUpdates.WithLabelValues("written").Add(float64(written))
	p.metrics.ProjectorUpdates.WithLabelValues("older").Add(float64(len(part.last) - written))
	return nil
}

// move moves the mark in Redis from the one remembered to to. When another one
// is found there it says what has happened: an older one or none, that Redis has
// lost writes. So does, in a cluster, a node without witness.
func (p *Projector) move(ctx context.Context, part *partition, to redisview.Mark) error {
	found, err := p.compareAndMove(ctx, part.number, part.mark, to)
	switch {
	case err != nil:
		return err
	case found == to:
		p.settle(part, found)
		if found.Epoch < p.view.Founded(ctx) {
			return p.rebuild(ctx, part, found, to)
		}
		return nil
	case ahead(found, part.mark):
		return p.follow(ctx, part, found, to)
	default:
		return p.rebuild(ctx, part, found, to)
	}
}

// compareAndMove is View.Move in bounded time.
func (p *Projector) compareAndMove(ctx context.Context, number int32, from, to redisview.Mark) (redisview.Mark, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
	defer cancel()
	return p.view.Move(ctx, number, from, to)
}

// ahead tells whether found is a mark that came after mark without a rebuild or
// by one that has ended.
func ahead(found, mark redisview.Mark) bool {
	if found.Rebuilding || found.Epoch != mark.Epoch {
		return !found.Rebuilding && found.Epoch > mark.Epoch
	}
	return found.Watermark >= mark.Watermark && found.Next >= mark.Next
}

// follow goes on from a mark that somebody else has moved forward: an earlier
// attempt of our own whose answer was lost, or the partition's other owner for
// as long as there are two.
func (p *Projector) follow(ctx context.Context, part *partition, found, to redisview.Mark) error {
	again := found.Epoch != part.mark.Epoch
	part.mark = found
	if again {
		// Written under an epoch that no longer counts.
		if err := p.write(ctx, part, found.Epoch); err != nil {
			return err
		}
	}
	merged := redisview.Mark{Epoch: found.Epoch, Watermark: max(found.Watermark, to.Watermark), Next: max(found.Next, to.Next)}
	moved, err := p.compareAndMove(ctx, part.number, found, merged)
	switch {
	case err != nil:
		return err
	case moved != merged:
		return fmt.Errorf("the mark of partition %d is moved by somebody else too", part.number)
	}
	p.settle(part, merged)
	return nil
}

func (p *Projector) settle(part *partition, mark redisview.Mark) {
	part.mark = mark
	p.metrics.ProjectorWatermark.WithLabelValues(lastseen.Partition(part.number)).Set(float64(mark.Watermark) / 1000)
}

// partition is what is remembered of one, rebuilt in Redis where need be.
func (p *Projector) partition(ctx context.Context, number int32) (*partition, error) {
	part := p.remembered(number)
	if part == nil {
		if _, err := p.Start(ctx, schemas.Commit{Partition: number}); err != nil {
			return nil, err
		}
		part = p.remembered(number)
	}
	if part.begun {
		return part, nil
	}
	found, err := p.view.Mark(ctx, number)
	if err != nil {
		return nil, err
	}
	if err := p.rebuild(ctx, part, found, part.mark); err != nil {
		return nil, err
	}
	part.begun = true
	return part, nil
}

func (p *Projector) remembered(number int32) *partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.partitions[number]
}

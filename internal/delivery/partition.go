package delivery

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// partition has the deliveries in progress of one partition of presence.deliveries: a queue for each
// user, so a failed delivery delays only later ones about the same user. Config.Queue bounds all
// queues together.
type partition struct {
	c      *Consumer
	ctx    context.Context // of the tries
	cancel context.CancelFunc
	ending chan struct{} // closed: no delivery waits for another try any more
	work   sync.WaitGroup

	slots       chan struct{} // a token for each delivery in progress
	quick, slow chan struct{} // a token for each try; see enter

	mu     sync.Mutex // protects what is below
	queues map[schemas.UserID]*queue
	inHand *list.List // of *Item, by offset
}

// queue has the deliveries about one user, in order. Its goroutine takes from the front, Apply
// appends.
type queue struct {
	waiting []*list.Element // of *Item; guarded by partition.mu
	failing bool            // owned by the goroutine: the last try failed
}

// quickFor is how long a try may take before it counts as slow.
const quickFor = time.Second

// errReleased says that a delivery is left to the partition's next owner.
var errReleased = errors.New("the partition is released")

func (c *Consumer) partition(ctx context.Context, id int32) *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitions[id]
	if p == nil {
		p = &partition{c: c, ending: make(chan struct{}), slots: make(chan struct{}, c.config.Queue),
			quick: make(chan struct{}, c.config.Concurrency), slow: make(chan struct{}, c.config.Concurrency),
			queues: map[schemas.UserID]*queue{}, inHand: list.New()}
		p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
		c.partitions[id] = p
	}
	return p
}

// Apply queues a batch. It returns when all of it is queued, or an error when ctx ends before.
func (c *Consumer) Apply(ctx context.Context, batch stream.Batch[Item]) error {
	p := c.partition(ctx, batch.Partition)
	for i := range batch.Items {
		if batch.Items[i].Delivery == nil {
			c.metrics.Withheld.WithLabelValues(errHidden.Error()).Inc()
			continue
		}
		if !c.tenants.serves(batch.Items[i].Delivery.Transition.Name.Tenant) {
			c.metrics.Others.Inc()
			continue
		}
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.take(batch.Items[i])
	}
	return nil
}

// InHand returns the offset of the first delivery in progress of a partition.
func (c *Consumer) InHand(id int32) (first int64, any bool) {
	c.mu.Lock()
	p := c.partitions[id]
	c.mu.Unlock()
	if p == nil {
		return 0, false
	}
	return p.first()
}

// Finish delivers what is in progress of a partition until ctx ends, except for failed deliveries and
// those that wait for them. It removes the partition, returns when nothing works on it any more, and
// says which delivery is the first that is left.
func (c *Consumer) Finish(ctx context.Context, id int32) (first int64, any bool) {
	c.mu.Lock()
	p := c.partitions[id]
	delete(c.partitions, id)
	c.mu.Unlock()
	if p == nil {
		return 0, false
	}
	close(p.ending)
	defer p.cancel()
	defer context.AfterFunc(ctx, p.cancel)()
	p.work.Wait()
	first, any = p.first()
	c.metrics.InHand.Sub(float64(p.inHand.Len()))
	return first, any
}

func (p *partition) first() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if front := p.inHand.Front(); front != nil {
		return front.Value.(*Item).Record.Offset, true
	}
	return 0, false
}

// take appends item to its user's queue.
func (p *partition) take(item Item) {
	r := &item.Record
	r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	user := item.Delivery.Transition.User
	p.c.metrics.InHand.Inc()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.inHand.PushBack(&item)
	if q := p.queues[user]; q != nil {
		q.waiting = append(q.waiting, e)
		return
	}
	q := &queue{waiting: []*list.Element{e}}
	p.queues[user] = q
	p.work.Go(func() { p.drain(user, q) })
}

// drain delivers a queue until it is empty.
func (p *partition) drain(user schemas.UserID, q *queue) {
	for {
		p.mu.Lock()
		e := q.waiting[0]
		p.mu.Unlock()
		if p.deliver(q, e.Value.(*Item)) != nil {
			return // it stays in progress, and so do those that wait for it
		}
		p.mu.Lock()
		p.inHand.Remove(e)
		q.waiting = q.waiting[1:]
		last := len(q.waiting) == 0
		if last {
			delete(p.queues, user)
		}
		p.mu.Unlock()
		<-p.slots
		p.c.metrics.InHand.Dec()
		if last {
			return
		}
	}
}

// enter waits for a slot for a try. Config.Concurrency slots are for users whose last try did not
// fail, and as many for the others, so users for whom the receiver fails or hangs delay nobody else. A
// first try that takes long moves to a slot of the second kind if one is free.
func (p *partition) enter(failing bool) (leave func(), err error) {
	held := p.quick
	if failing {
		held = p.slow
	}
	select {
	case held <- struct{}{}:
	case <-p.ctx.Done():
		return nil, errReleased
	}
	if failing {
		return func() { <-held }, nil
	}
	var mu sync.Mutex // protects held and left
	left := false
	timer := time.AfterFunc(quickFor, func() {
		mu.Lock()
		defer mu.Unlock()
		if left {
			return
		}
		select {
		case p.slow <- struct{}{}:
			<-p.quick
			held = p.slow
		default:
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		left = true
		<-held
	}, nil
}

// pause waits between two tries.
func (p *partition) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.ending:
	case <-p.ctx.Done():
	}
	return errReleased
}

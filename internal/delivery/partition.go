package delivery

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// partition has the deliveries in progress of one partition of presence.deliveries, in one lane or, with
// Endpoints, in a lane for each tenant. Config.Queue bounds all lanes together.
type partition struct {
	c      *Consumer
	id     int32
	ctx    context.Context // of the tries
	cancel context.CancelFunc
	ending chan struct{} // closed: no delivery waits for another try any more
	work   sync.WaitGroup

	slots     chan struct{} // a token for each delivery in progress, without Endpoints
	freedAny  chan struct{} // has a token after something was finished, with Endpoints
	behindLog rate.Sometimes

	mu       sync.Mutex       // protects what is below
	lanes    map[string]*lane // by tenant
	count    int              // of deliveries in progress
	position int64            // the offset after the last record of Apply
	stalled  int              // of count, in lanes that stalled when they were looked at
	looked   time.Time        // when that was
}

// queue has the deliveries about one user, in order. Its goroutine takes from the front, Apply
// appends.
type queue struct {
	lane    *lane
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
		p = &partition{c: c, id: id, ending: make(chan struct{}), slots: make(chan struct{}, c.config.Queue), freedAny: make(chan struct{}, 1),
			behindLog: rate.Sometimes{Interval: time.Minute}, lanes: map[string]*lane{}}
		p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
		c.partitions[id] = p
	}
	return p
}

// Apply queues a batch. It returns when all of it is queued, or an error when ctx ends before. With
// Endpoints it waits for no receiver that is slow or fails: such tenants read their records again later.
func (c *Consumer) Apply(ctx context.Context, batch stream.Batch[Item]) error {
	p := c.partition(ctx, batch.Partition)
	for i := range batch.Items {
		if batch.Items[i].Delivery == nil {
			c.metrics.Withheld.WithLabelValues(errHidden.Error()).Inc()
			continue
		}
		if !c.serves(batch.Items[i].Delivery.Transition) {
			c.metrics.Others.Inc()
			continue
		}
		if c.endpoints != nil {
			if err := p.offer(ctx, batch.Items[i]); err != nil {
				return err
			}
			continue
		}
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.take(batch.Items[i])
	}
	if c.endpoints != nil {
		p.mu.Lock()
		p.position = max(p.position, batch.Next)
		p.mu.Unlock()
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
	c.metrics.InHand.Sub(float64(p.count))
	return first, any
}

func (p *partition) first() (first int64, any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		if front := l.inHand.Front(); front != nil {
			at := front.Value.(*Item).Record.Offset
			if !any || at < first {
				first, any = at, true
			}
		}
		if l.behind >= 0 && (!any || l.behind < first) {
			first, any = l.behind, true
		}
	}
	return first, any
}

// take adds an item to the lane of everybody.
func (p *partition) take(item Item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(p.lane(""), item)
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
		q.lane.inHand.Remove(e)
		p.count--
		q.waiting = q.waiting[1:]
		last := len(q.waiting) == 0
		if last {
			delete(q.lane.queues, user)
		}
		if p.c.endpoints != nil {
			p.freed(q.lane)
		}
		p.mu.Unlock()
		if p.c.endpoints == nil {
			<-p.slots
		}
		p.c.metrics.InHand.Dec()
		if last {
			return
		}
	}
}

// freed lets a lane that is behind look for space, and drops one that has nothing to do. Called under mu.
func (p *partition) freed(l *lane) {
	select {
	case p.freedAny <- struct{}{}:
	default:
	}
	if l.behind < 0 {
		p.forget(l)
		return
	}
	select {
	case l.space <- struct{}{}:
	default:
	}
}

// enter waits for a slot for a try. Config.Concurrency slots are for users whose last try did not
// fail, and as many for the others, so users for whom the receiver fails or hangs delay nobody else. A
// first try that takes long moves to a slot of the second kind if one is free.
func (p *partition) enter(q *queue) (leave func(), err error) {
	failing, quick, slow := q.failing, q.lane.quick, q.lane.slow
	held := quick
	if failing {
		held = slow
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
		case slow <- struct{}{}:
			<-quick
			held = slow
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

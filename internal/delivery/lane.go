package delivery

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/schemas"
)

// Endpoints are the receivers of tenants that have one each. Any goroutine may call the methods, and the
// answers may change.
type Endpoints interface {
	// Wants reports whether a transition is for the receiver of its tenant; false as well if the tenant has
	// none.
	Wants(t *schemas.Transition) bool
	// Limit bounds the tries of a tenant's receiver; nil: no limit.
	Limit(tenant string) *rate.Limiter
}

// Reread reads the items of a partition again, from offset from up to but without to, in order. What
// cannot be decoded is left out. An error of each ends it and is returned unchanged. The record of an item
// is valid until each returns. Several goroutines call it.
type Reread func(ctx context.Context, partition int32, from, to int64, each func(Item) error) error

// rereads is how many lanes of a process read the topic again at a time.
const rereads = 4

// lane has what is in progress of a partition: of one tenant if each has a receiver of its own, else of
// everybody. A failed delivery delays only later ones about the same user.
type lane struct {
	tenant      string
	quick, slow chan struct{} // a token for each try; see enter

	// Guarded by partition.mu.
	queues map[schemas.UserID]*queue
	inHand *list.List // of *Item, by offset
	// behind is the offset of the first record that may be missing in inHand, because there was no space for
	// it; -1: none is missing. While it is not -1, a goroutine in catchUp owns it, and alone adds to the lane.
	behind int64
	// space has a token after something was finished while the lane was behind.
	space chan struct{}
}

// lane returns the lane of a tenant. Called under mu.
func (p *partition) lane(tenant string) *lane {
	l := p.lanes[tenant]
	if l == nil {
		l = &lane{tenant: tenant, quick: make(chan struct{}, p.c.config.Concurrency), slow: make(chan struct{}, p.c.config.Concurrency),
			queues: map[schemas.UserID]*queue{}, inHand: list.New(), behind: -1, space: make(chan struct{}, 1)}
		p.lanes[tenant] = l
	}
	return l
}

// forget drops a lane that has nothing to do. Called under mu.
func (p *partition) forget(l *lane) {
	if l.behind < 0 && l.inHand.Len() == 0 {
		delete(p.lanes, l.tenant)
	}
}

// add appends an item to the queue of its user. Called under mu.
func (p *partition) add(l *lane, item Item) {
	r := &item.Record
	r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	user := item.Delivery.Transition.User
	item.taken = time.Now()
	p.c.metrics.InHand.Inc()
	p.count++
	e := l.inHand.PushBack(&item)
	if q := l.queues[user]; q != nil {
		q.waiting = append(q.waiting, e)
		return
	}
	q := &queue{lane: l, waiting: []*list.Element{e}}
	l.queues[user] = q
	p.work.Go(func() { p.drain(user, q) })
}

// offer adds an item to the lane of its tenant, or lets the lane fall behind if that is full: then it reads
// its records from the topic again when there is space, and nobody waits for it. While lanes that do not
// stall have all that may be in progress, offer waits for them.
func (p *partition) offer(ctx context.Context, item Item) error {
	for {
		if p.tryOffer(item) {
			return nil
		}
		timer := time.NewTimer(stallLook) // a lane may begin to stall, and is not waited for then
		select {
		case <-p.freedAny:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// tryOffer is false if the item has to wait.
func (p *partition) tryOffer(item Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(item.Delivery.Transition.Name.Tenant)
	switch {
	case l.behind >= 0:
	case l.inHand.Len() >= p.bound(l):
		l.behind = item.Record.Offset
		p.c.metrics.Behind.Inc()
		p.work.Go(func() { p.catchUp(l) })
	case p.moving() >= p.c.config.Queue:
		return false
	default:
		p.add(l, item)
	}
	p.position = item.Record.Offset + 1
	return true
}

// stallLook is how often it is looked which lanes stall.
const stallLook = 100 * time.Millisecond

// stalls reports whether the receiver of a lane is slow or fails: its first item has been in progress for
// long. Called under mu.
func (l *lane) stalls(now time.Time) bool {
	front := l.inHand.Front()
	return front != nil && now.Sub(front.Value.(*Item).taken) > quickFor
}

// bound is how much a lane may have in progress: one that stalls as much as can be tried. Called under mu.
func (p *partition) bound(l *lane) int {
	if l.stalls(time.Now()) {
		return min(p.c.config.TenantQueue, 2*p.c.config.Concurrency)
	}
	return p.c.config.TenantQueue
}

// moving is how much is in progress in lanes that do not stall. Called under mu.
func (p *partition) moving() int {
	if p.count < p.c.config.Queue {
		return p.count
	}
	if now := time.Now(); now.Sub(p.looked) >= stallLook {
		p.looked, p.stalled = now, 0
		for _, l := range p.lanes {
			if l.stalls(now) {
				p.stalled += l.inHand.Len()
			}
		}
	}
	return p.count - p.stalled
}

// fits reports whether a lane that is behind may take one more. Called under mu.
func (p *partition) fits(l *lane) bool {
	n := l.inHand.Len()
	return n < p.bound(l) && (n < p.c.config.Concurrency || p.moving() < p.c.config.Queue)
}

// hasSpace reports whether it is worth reading again for a lane. Called under mu.
func (p *partition) hasSpace(l *lane) bool {
	n := l.inHand.Len()
	return n <= p.bound(l)/2 && p.moving() < p.c.config.Queue || n <= min(p.c.config.Concurrency, p.c.config.TenantQueue)/2
}

// errFull says that a lane has no space for more.
var errFull = errors.New("the lane is full")

// errBehind is why a delivery becomes a dead letter without a try.
var errBehind = errors.New("the receiver of the tenant is too far behind (max-behind)")

// catchUp reads what a lane has missed until it misses nothing or the partition is released.
func (p *partition) catchUp(l *lane) {
	c := p.c
	defer c.metrics.Behind.Dec()
	for tries := 0; p.awaitSpace(l); {
		select {
		case c.rereads <- struct{}{}:
		case <-p.ending:
			return
		case <-p.ctx.Done():
			return
		}
		done, err := p.rereadFor(l)
		<-c.rereads
		if done {
			return
		}
		if err == nil {
			tries = 0
			continue
		}
		tries++
		c.log.Warn("reading deliveries again for a tenant that is behind failed; trying again",
			"tenant", l.tenant, "partition", p.id, "tries", tries, "error", err)
		if p.pause(c.waitAfter(tries, err)) != nil {
			return
		}
	}
}

// awaitSpace is false when the partition is released before there is space.
func (p *partition) awaitSpace(l *lane) bool {
	for {
		p.mu.Lock()
		space := p.hasSpace(l)
		p.mu.Unlock()
		if space {
			return true
		}
		select {
		case <-l.space:
		case <-p.ending:
			return false
		case <-p.ctx.Done():
			return false
		}
	}
}

// rereadFor fills a lane from the topic. done says that it is not behind any more.
func (p *partition) rereadFor(l *lane) (done bool, err error) {
	p.mu.Lock()
	from, to := l.behind, p.position
	p.mu.Unlock()
	err = p.c.reread(p.ctx, p.id, from, to, func(item Item) error { return p.resume(l, item) })
	switch {
	case errors.Is(err, errFull), errors.Is(err, errReleased):
		return false, nil
	case err != nil:
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.behind = to; to < p.position {
		return false, nil
	}
	l.behind = -1
	p.forget(l)
	return true, nil
}

// resume adds an item to a lane that is behind.
func (p *partition) resume(l *lane, item Item) error {
	select {
	case <-p.ending:
		return errReleased
	case <-p.ctx.Done():
		return errReleased
	default:
	}
	c := p.c
	if item.Delivery == nil || item.Delivery.Transition.Name.Tenant != l.tenant || !c.serves(item.Delivery.Transition) {
		return nil
	}
	if age := time.Since(item.Record.Time.Time()); c.config.MaxBehind > 0 && age > c.config.MaxBehind {
		if err := p.giveUp(&item); err != nil {
			return err
		}
		p.mu.Lock()
		l.behind = item.Record.Offset + 1
		p.mu.Unlock()
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fits(l) {
		l.behind = item.Record.Offset
		return errFull
	}
	p.add(l, item)
	l.behind = item.Record.Offset + 1
	return nil
}

// giveUp writes an item to the dead-letter topic that its lane has no time for, unless it would be
// withheld.
func (p *partition) giveUp(item *Item) error {
	c, notice := p.c, p.c.notice(item, item.Delivery.Recipients)
	if err := c.withheld(&notice); err != nil {
		c.metrics.Withheld.WithLabelValues(err.Error()).Add(recipientsOf(notice))
		return nil
	}
	if err := p.writeDeadLetter(item, notice.ID, fmt.Errorf("%w: %s", errBehind, c.config.MaxBehind)); err != nil {
		return err
	}
	c.letter(item)
	p.behindLog.Do(func() {
		c.log.Error("deliveries of a tenant are written to the dead-letter topic untried: its receiver is too far behind",
			"tenant", item.Delivery.Transition.Name.Tenant, "max_behind", c.config.MaxBehind, "id", notice.ID)
	})
	return nil
}

package live

// queued is one change that waits for a viewer.
type queued struct {
	sub    *sub
	state  *state
	resync bool // to be sent as a correction
}

// queue holds the changes that wait for one viewer, in order. When it is full it collapses to the
// newest change of each user. That always makes space, because the queue is longer than the number
// of a viewer's subscriptions. Guarded by the viewer's mutex.
type queue struct {
	items []queued
	head  int // items before it are gone
	round uint32
}

// emptyCapacity bounds the memory of an empty queue, in items: there are many idle viewers.
const emptyCapacity = 8

func (q *queue) len() int { return len(q.items) - q.head }

// push appends item. If limit items wait already, the queue collapses first. push returns how many
// items the collapse dropped.
func (q *queue) push(item queued, limit int) (collapsed int) {
	if q.len() >= limit {
		collapsed = q.collapse()
	}
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
	return collapsed
}

// pop removes the first item that is still wanted; false when there is none.
func (q *queue) pop() (queued, bool) {
	for q.head < len(q.items) {
		item := q.items[q.head]
		q.items[q.head] = queued{}
		q.head++
		if item.wanted() {
			return item, true
		}
	}
	q.head = 0
	if q.items = q.items[:0]; cap(q.items) > emptyCapacity {
		q.items = nil
	}
	return queued{}, false
}

// peekResync reports whether the next item, wanted or not, is a correction.
func (q *queue) peekResync() bool { return q.head < len(q.items) && q.items[q.head].resync }

// collapse keeps the newest item of each subscription. It also drops the items of ended
// subscriptions, which do not count.
func (q *queue) collapse() (dropped int) {
	q.round++
	begin := len(q.items)
	for i := len(q.items) - 1; i >= q.head; i-- {
		item := q.items[i]
		switch {
		case !item.wanted():
		case item.sub.round == q.round:
			dropped++
		default:
			item.sub.round = q.round
			begin--
			q.items[begin] = item
		}
	}
	clear(q.items[:begin])
	q.head = begin
	return dropped
}

// drop removes everything.
func (q *queue) drop() { q.items, q.head = nil, 0 }

// wanted reports whether the item is still news: the subscription is in force, and no snapshot has
// had the same since.
func (i queued) wanted() bool {
	return i.sub.live && (i.state.version > i.sub.base || i.resync && i.state.version == i.sub.base)
}

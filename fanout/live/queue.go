package live

// queued is one change that waits for a viewer.
type queued struct {
	sub    *sub
	state  *state
	resync bool // to be sent as a correction
}

// queue is what waits for one viewer, in order. When it is full it collapses to the
// newest state of each user; the room for that is there because it is longer than a
// viewer has subscriptions. Guarded by the viewer's mutex.
type queue struct {
	items []queued
	head  int // items before it are gone
	round uint32
}

// keepRoom is how much room an empty queue keeps, in items: idle viewers are many.
const keepRoom = 8

func (q *queue) len() int { return len(q.items) - q.head }

// push appends, after a collapse when limit items wait already. It reports how many
// were left out.
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

// pop takes the first item that is still wanted; false when there is none.
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
	if q.items = q.items[:0]; cap(q.items) > keepRoom {
		q.items = nil
	}
	return queued{}, false
}

// unpop puts back what pop has just given.
func (q *queue) unpop(item queued) {
	q.head--
	q.items[q.head] = item
}

// peekResync tells whether the next item, wanted or not, is a correction.
func (q *queue) peekResync() bool { return q.head < len(q.items) && q.items[q.head].resync }

// collapse keeps the newest item of each subscription, and drops those of ended
// ones, which do not count.
func (q *queue) collapse() (dropped int) {
	q.round++
	kept := len(q.items)
	for i := len(q.items) - 1; i >= q.head; i-- {
		item := q.items[i]
		switch {
		case !item.wanted():
		case item.sub.round == q.round:
			dropped++
		default:
			item.sub.round = q.round
			kept--
			q.items[kept] = item
		}
	}
	clear(q.items[:kept])
	q.head = kept
	return dropped
}

// drop forgets everything.
func (q *queue) drop() { q.items, q.head = nil, 0 }

// wanted tells whether the viewer still wants the item: the subscription is in
// force and no snapshot has said as much since.
func (i queued) wanted() bool {
	return i.sub.live && (i.state.version > i.sub.base || i.resync && i.state.version == i.sub.base)
}

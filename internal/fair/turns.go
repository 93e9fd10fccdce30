package fair

import (
	"iter"
	"slices"
)

// Weight is the share of a tenant relative to others; at least 1. nil stands for 1 for everybody. Any
// goroutine may call it.
type Weight func(tenant string) int

// Turns holds items of several tenants. The caller bounds their number. One goroutine owns it.
type Turns[T any] struct {
	weight  Weight
	quantum int
	queues  map[string]*queue[T]
	current *queue[T] // whose turn it is, in a ring; nil: there are no queues
	length  int
}

// queue has the items of one tenant. A queue without items stays in the ring while it is in debt.
type queue[T any] struct {
	tenant     string
	items      []T // from head on
	head       int
	credit     int
	prev, next *queue[T]
}

// NewTurns makes empty Turns. In one turn a tenant gets items of a cost of quantum, times its weight.
func NewTurns[T any](quantum int, weight Weight) *Turns[T] {
	return &Turns[T]{weight: weight, quantum: quantum, queues: map[string]*queue[T]{}}
}

// Len is the number of items.
func (t *Turns[T]) Len() int { return t.length }

// LenOf is the number of items of a tenant.
func (t *Turns[T]) LenOf(tenant string) int {
	if q := t.queues[tenant]; q != nil {
		return q.len()
	}
	return 0
}

// Push appends an item to those of its tenant.
func (t *Turns[T]) Push(tenant string, item T) {
	q := t.queue(tenant)
	q.items = append(q.items, item)
	t.length++
}

// Next removes the next item and charges its tenant; false: there is none.
func (t *Turns[T]) Next(cost int) (tenant string, item T, ok bool) {
	if t.length == 0 {
		t.current = nil // nobody waits for a debt to be paid
		clear(t.queues)
		return "", item, false
	}
	for t.current.len() == 0 || t.current.credit <= 0 {
		t.turn()
	}
	q := t.current
	q.credit -= cost
	t.length--
	return q.tenant, q.take(), true
}

// NextOf is Next of a tenant, whoever's turn it is.
func (t *Turns[T]) NextOf(tenant string, cost int) (item T, ok bool) {
	q := t.queues[tenant]
	if q == nil || q.len() == 0 {
		return item, false
	}
	q.credit -= cost
	t.length--
	return q.take(), true
}

// Charge adds to the cost of what a tenant was given.
func (t *Turns[T]) Charge(tenant string, cost int) {
	if q := t.queues[tenant]; q != nil || cost > 0 {
		t.queue(tenant).credit -= cost
	}
}

// PutBack undoes Next. Several items go back in the reverse of the order in which Next returned them.
func (t *Turns[T]) PutBack(tenant string, item T, cost int) {
	q := t.queue(tenant)
	q.credit += cost
	t.length++
	if q.head > 0 {
		q.head--
		q.items[q.head] = item
		return
	}
	q.items = slices.Insert(q.items, 0, item)
}

// DropLast removes the newest item of the tenant that has most; false: there is none.
func (t *Turns[T]) DropLast() (tenant string, item T, ok bool) {
	longest := t.longest()
	if longest == nil {
		return "", item, false
	}
	item = longest.items[len(longest.items)-1]
	longest.drop(len(longest.items) - 1)
	t.length--
	return longest.tenant, item, true
}

// Longest is the number of items of the tenant that has most.
func (t *Turns[T]) Longest() int {
	if q := t.longest(); q != nil {
		return q.len()
	}
	return 0
}

// Remove removes the first item of a tenant that is the one; false: there is none.
func (t *Turns[T]) Remove(tenant string, is func(T) bool) bool {
	q := t.queues[tenant]
	if q == nil {
		return false
	}
	i := slices.IndexFunc(q.items[q.head:], is)
	if i < 0 {
		return false
	}
	q.drop(q.head + i)
	t.length--
	return true
}

// Fronts are the tenants that have items, with the oldest item of each, in no order.
func (t *Turns[T]) Fronts() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for tenant, q := range t.queues {
			if q.len() > 0 && !yield(tenant, q.items[q.head]) {
				return
			}
		}
	}
}

func (t *Turns[T]) longest() (longest *queue[T]) {
	for _, q := range t.queues {
		if q.len() > 0 && (longest == nil || q.len() > longest.len()) {
			longest = q
		}
	}
	return longest
}

// queue is the queue of a tenant. A new one has its turn after all others.
func (t *Turns[T]) queue(tenant string) *queue[T] {
	q := t.queues[tenant]
	if q != nil {
		return q
	}
	q = &queue[T]{tenant: tenant}
	t.queues[tenant] = q
	if t.current == nil {
		q.prev, q.next, q.credit = q, q, t.share(tenant)
		t.current = q
		return q
	}
	q.prev, q.next = t.current.prev, t.current
	q.prev.next, q.next.prev = q, q
	return q
}

// turn ends the turn of the current tenant. A tenant without items leaves when it has no debt.
func (t *Turns[T]) turn() {
	q := t.current
	t.current = q.next
	if q.len() == 0 && q.credit >= 0 {
		q.prev.next, q.next.prev = q.next, q.prev
		delete(t.queues, q.tenant)
	}
	next := t.current
	share := t.share(next.tenant)
	next.credit = min(next.credit+share, share)
}

func (t *Turns[T]) share(tenant string) int {
	if t.weight == nil {
		return t.quantum
	}
	return t.quantum * max(1, t.weight(tenant))
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

// take removes the first item.
func (q *queue[T]) take() T {
	var none T
	item := q.items[q.head]
	q.items[q.head] = none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return item
}

// drop removes the item at an index of items.
func (q *queue[T]) drop(i int) { q.items = slices.Delete(q.items, i, i+1) }

package expand

import (
	"slices"
	"sync/atomic"

	"github.com/stillhere/stillhere/internal/fair"
	"github.com/stillhere/stillhere/schemas"
)

// backlog has the records of a partition that were read and are not handled yet, in text mode. Tenants
// get turns, and each tenant's records stay in the order of the log. A user's records from before its
// name, and so its tenant, was known are in the queue of the default tenant: those that a later one of the
// user has passed are superseded. The task's goroutine owns it.
type backlog[T any] struct {
	turns  *fair.Turns[queued[T]]
	price  int                     // of a record when it is taken, before its cost is known
	most   int                     // Config.Ahead
	users  map[schemas.UserID]user // with records in turns or group
	group  []queued[T]             // taken, and not handled before done
	shared *atomic.Int32           // tasks of the process that have a backlog
	counts bool                    // in shared
}

// queued is a record in a backlog.
type queued[T any] struct {
	item   T
	user   schemas.UserID
	tenant string
	offset int64
	passed bool // superseded
}

// user is one with so many records in a backlog; passed is the offset of the newest that was handled.
type user struct {
	records int
	passed  int64
}

// maxCuts bounds the tenants with a backlog, whose positions are in the checkpoint.
const maxCuts = 32

func newBacklog[T any](d *Dependencies, quantum, price int, shared *atomic.Int32) *backlog[T] {
	return &backlog[T]{turns: fair.NewTurns[queued[T]](quantum, d.Weight), price: price, most: d.Config.Ahead,
		users: map[schemas.UserID]user{}, shared: shared}
}

// capacity is how many records may be added.
func (b *backlog[T]) capacity() int { return max(0, b.most-b.turns.Len()-len(b.group)) }

// push adds a record.
func (b *backlog[T]) push(tenant string, id schemas.UserID, offset int64, item T) {
	u := b.users[id]
	u.records++
	b.users[id] = u
	b.turns.Push(tenant, queued[T]{item: item, user: id, tenant: tenant, offset: offset})
	b.count()
}

// pass notes that a record of a user was handled.
func (b *backlog[T]) pass(id schemas.UserID, offset int64) {
	if u, any := b.users[id]; any {
		u.passed = max(u.passed, offset)
		b.users[id] = u
	}
}

// take returns what is to be handled now: up to most records, and those of tenants above maxCuts. Until
// done it returns the same.
func (b *backlog[T]) take(most int) []queued[T] {
	if b.group != nil {
		return b.group
	}
	for len(b.group) < most {
		_, q, any := b.turns.Next(b.price)
		if !any {
			break
		}
		b.add(q)
	}
	b.takeSurplus()
	return b.group
}

// add adds a record to the group.
func (b *backlog[T]) add(q queued[T]) {
	q.passed = q.offset < b.users[q.user].passed
	b.pass(q.user, q.offset)
	b.group = append(b.group, q)
}

// takeSurplus takes all records of the tenants with the fewest, but for maxCuts tenants.
func (b *backlog[T]) takeSurplus() {
	var tenants []string
	for tenant := range b.turns.Fronts() {
		tenants = append(tenants, tenant)
	}
	if len(tenants) <= maxCuts {
		return
	}
	slices.SortFunc(tenants, func(x, y string) int { return b.turns.LenOf(x) - b.turns.LenOf(y) })
	for _, tenant := range tenants[:len(tenants)-maxCuts] {
		for q, any := b.turns.NextOf(tenant, b.price); any; q, any = b.turns.NextOf(tenant, b.price) {
			b.add(q)
		}
	}
}

// done ends what take returned. Records in back, which are in the order of the group, stay in the backlog;
// every later record of their tenants in the group is among them, or handled.
func (b *backlog[T]) done(back []queued[T]) {
	stays := make(map[int64]struct{}, len(back))
	for _, q := range slices.Backward(back) {
		b.turns.PutBack(q.tenant, q, b.price)
		stays[q.offset] = struct{}{}
	}
	for _, q := range b.group {
		if _, stay := stays[q.offset]; stay {
			continue
		}
		if u := b.users[q.user]; u.records > 1 {
			u.records--
			b.users[q.user] = u
		} else {
			delete(b.users, q.user)
		}
	}
	b.group = nil
	b.count()
}

// charge adds the cost of a record that was handled.
func (b *backlog[T]) charge(q queued[T], cost int) { b.turns.Charge(q.tenant, cost-b.price) }

// first is the offset of the first record.
func (b *backlog[T]) first() (first int64, any bool) {
	for _, q := range b.turns.Fronts() {
		if !any || q.offset < first {
			first, any = q.offset, true
		}
	}
	return first, any
}

// cuts are the offsets of the first record of each tenant, by its sum.
func (b *backlog[T]) cuts() map[uint64]int64 {
	cuts := map[uint64]int64{}
	for tenant, q := range b.turns.Fronts() {
		s := sum(tenant)
		if first, any := cuts[s]; !any || q.offset < first {
			cuts[s] = q.offset
		}
	}
	return cuts
}

// share is this task's part of n, which the tasks of the process with a backlog share; at least least.
func (b *backlog[T]) share(n, least int) int { return max(least, n/max(1, int(b.shared.Load()))) }

// count counts the task in shared while it has a backlog.
func (b *backlog[T]) count() {
	switch any := b.turns.Len() > 0; {
	case any && !b.counts:
		b.shared.Add(1)
	case !any && b.counts:
		b.shared.Add(-1)
	}
	b.counts = b.turns.Len() > 0
}

// close ends the backlog.
func (b *backlog[T]) close() {
	if b.counts {
		b.shared.Add(-1)
		b.counts = false
	}
}

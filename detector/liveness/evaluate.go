package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// manyDue is from how many timers on room is made for what they lead to beforehand.
const manyDue = 4096

// evaluate publishes everything that is due at limits up to x, in order.
func (m *Machine) evaluate(x presence) {
	m.wheel.advance(x, m.touch, m.look)
	first := len(m.out.Transitions)
	if n := len(m.wheel.soon); n > manyDue && !m.replaying {
		m.out.Transitions, m.out.Statuses = slices.Grow(m.out.Transitions, n), slices.Grow(m.out.Statuses, n)
	}
	for {
		at, isRelease := m.queue.next(), true
		if soon := m.wheel.soon; len(soon) > 0 && (soon[0].at < at || len(m.joining) > 0 && soon[0].at <= m.joining[0].due) {
			at, isRelease = soon[0].at, false
		}
		if len(m.joining) > 0 && (isRelease || at > m.joining[0].due) {
			// All that are due at this instant have been found.
			m.join()
			continue
		}
		if at > x {
			break
		}
		if isRelease {
			m.release()
		} else {
			m.fire(m.wheel.soon.pop())
		}
	}
	sortTransitions(m.out.Transitions[first:])
}

// fire looks at the user of a timer.
func (m *Machine) fire(d due) {
	if at, counts := m.armedAt(d.e); !counts || at != d.at {
		return
	}
	u := &m.scratch
	m.load(d.e, u)
	if limit := m.next(u); limit <= d.at {
		m.step(u, limit)
	}
	m.save(d.e, u, false)
}

// arm sets the timer of entry e for the next limit of u. When waiting tells that
// the present timer still waits and it is not later than that limit, it may stay:
// it will look again.
func (m *Machine) arm(e uint32, u *user, waiting bool) {
	limit := min(m.next(u), m.wheel.horizon())
	if waiting {
		if at, counts := m.armedAt(e); counts && at <= limit {
			return
		}
	}
	m.setTimer(e, limit)
}

// setTimer sets the one timer that counts for entry e.
func (m *Machine) setTimer(e uint32, at presence) {
	if stamp(at) == 0 {
		at-- // 0 stands for no timer; a millisecond early only means to look twice
	}
	m.store.cold(e).armed = stamp(at)
	m.wheel.add(at, e)
}

// armedAt is the instant of the timer that counts for entry e.
func (m *Machine) armedAt(e uint32) (presence, bool) {
	if e >= m.store.end() || m.store.hot(e).user == 0 {
		return 0, false
	}
	armed := m.store.cold(e).armed
	if armed == 0 {
		return 0, false
	}
	base := m.wheel.cursor
	return base + presence(int32(armed-stamp(base))), true
}

// touchEntries loads entries that are about to be looked at, all at once.
func (m *Machine) touchEntries(entries []uint32) {
	var touched uint32
	for _, e := range entries {
		if e < m.store.end() {
			touched += m.store.hot(e).seen
		}
	}
	for _, e := range entries {
		if e < m.store.end() {
			touched += m.store.cold(e).armed
		}
	}
	m.block.touched = touched
}

// lookAtTimer tells the wheel, about to move the bucket at its cursor, whether the
// timer of entry e in it counts and when it is due. Most users have been heard
// since: their timer goes to where it belongs now.
func (m *Machine) lookAtTimer(e uint32) (presence, bool) {
	at, counts := m.armedAt(e)
	if !counts || at/wheelStep != m.wheel.cursor/wheelStep {
		return 0, false // left over from before
	}
	h := m.store.hot(e)
	if h.flags&(flagMany|flagPresent) != flagPresent {
		return at, true
	}
	limit := m.clock.at(m.past(h.seen)) + m.present
	if h.flags.state() == schemas.Online && m.idleAfter != 0 {
		limit = min(limit, limit-m.present-presence(h.seen-h.active)+m.idleAfter)
	}
	if limit < m.wheel.cursor+wheelStep {
		return at, true
	}
	m.setTimer(e, min(limit, m.wheel.horizon()))
	return 0, false
}

// place is a device's place in the queue of those that are let go.
type place struct {
	due     presence
	release presence
	user    schemas.UserID
	device  schemas.DeviceID
}

// queue paces the devices of lost gateways, first in, first out.
type queue struct {
	places []place
	first  int
	last   int64 // presence time of the newest release given, microseconds
	step   int64
}

// next is when the first in the queue is let go.
func (q *queue) next() presence {
	if q.first == len(q.places) {
		return never
	}
	return q.places[q.first].release
}

// busy tells whether what was let go before x may still delay who comes next.
func (q *queue) busy(x presence) bool {
	return q.first < len(q.places) || q.last+q.step > int64(x)*1000
}

// join gives those who have become due their places.
func (m *Machine) join() {
	slices.SortFunc(m.joining, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device))
	})
	q := &m.queue
	if q.first > len(q.places)/2 {
		q.places = slices.Delete(q.places, 0, q.first)
		q.first = 0
	}
	for _, p := range m.joining {
		q.step = m.cohortStep
		q.last = max(int64(p.due)*1000, q.last+q.step)
		p.release = presence((q.last + 999) / 1000)
		q.places = append(q.places, p)
	}
	m.joining = m.joining[:0]
}

// release lets the first in the queue go, if it has not come back.
func (m *Machine) release() {
	q := &m.queue
	p := q.places[q.first]
	q.first++
	if q.first == len(q.places) {
		q.places, q.first = q.places[:0], 0
	}
	e := m.index.find(&m.store, hash(p.user), p.user)
	if e == none {
		return
	}
	u := &m.scratch
	m.load(e, u)
	m.letGo(u, p)
	m.save(e, u, true)
}

// movesPerTick bounds how many entries a tick moves to give memory back.
const movesPerTick = 4096

// upkeep is done at ticks: it forgets what is over and gives memory back.
func (m *Machine) upkeep() {
	m.gateways.sweep(&m.clock, m.evaluated)
	if !m.replaying {
		m.out.Gateways = append(m.out.Gateways, m.gateways.ends...)
	}
	m.gateways.ends = m.gateways.ends[:0]
	m.wheel.trim()
	if len(m.clock.frozen) > 0 {
		m.clock.forget(m.clock.presence() - m.away - m.memory - 15*60*1000)
	}
	m.store.trim()
	for i := 0; i < movesPerTick && m.store.sparse(); i++ {
		m.compact()
		m.store.trim()
	}
}

// compact moves one entry from the last chunk into a hole before it. It goes on
// where it was, and begins anew when users have come behind its back.
func (m *Machine) compact() {
	c := len(m.store.chunks) - 1
	if m.draining != c {
		m.draining, m.drained = c, 0
	}
	for ; m.drained < chunkEntries; m.drained++ {
		from := uint32(c*chunkEntries + m.drained)
		if m.store.hot(from).user == 0 {
			continue
		}
		if to, ok := m.store.hole(); ok {
			m.moveEntry(from, to)
		}
		return
	}
	m.drained = 0
}

// moveEntry moves a user to the free entry to. Its old timer finds a free entry
// when it fires.
func (m *Machine) moveEntry(from, to uint32) {
	h := *m.store.hot(from)
	m.index.move(hash(h.user), from, to)
	*m.store.hot(to), *m.store.cold(to) = h, *m.store.cold(from)
	m.store.used[to/chunkEntries]++
	m.store.live++
	if h.flags&flagMany != 0 {
		m.many[to] = m.many[from]
		delete(m.many, from)
	}
	m.store.remove(from)
	if at, counts := m.armedAt(to); counts {
		m.wheel.add(at, to)
	}
}

package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// evaluation is how far the evaluation of a record has come. Instants are handled one after
// another. At each, the limits of users come first, in the order of their ids, then releases from
// the queue, then the silence of gateways.
type evaluation struct {
	x     presence // everything due up to here
	at    presence // the instant being handled
	round int      // of it
	batch []uint32 // entries due at it
	done  int      // of them
}

// evaluate publishes everything that is due, in order. It returns false if the output is full; the
// next call continues.
func (m *Machine) evaluate() bool {
	v := &m.evaluation
	for {
		for ; v.done < len(v.batch); v.done++ {
			e := v.batch[v.done]
			if v.round == 1 && m.outputFull() {
				return false
			}
			m.slice.upTo = schemas.PublishedUpTo{At: m.clock.wall(v.at), User: m.store.hot(e).user}
			m.fire(e, v.at)
		}
		if len(m.joining) > 0 {
			m.join()
		}
		for m.queue.next() <= v.at {
			m.release()
		}
		if m.gateways.nextSilence(&m.clock) <= v.at {
			m.gateways.forgetSilent(&m.clock, v.at)
			m.tripBreaker(v.at)
		}
		if !m.nextInstant() {
			return true
		}
	}
}

// nextInstant finds the next instant up to x at which something is due.
func (m *Machine) nextInstant() bool {
	v := &m.evaluation
	v.batch, v.done = emptied(v.batch), 0
	at := min(m.queue.next(), m.gateways.nextSilence(&m.clock))
	for m.wheel.cursor <= min(at, v.x) && (len(m.wheel.soon) == 0 || m.wheel.soon[0].at >= m.wheel.cursor) {
		m.wheel.advance(m.touch, m.look)
	}
	if soon := m.wheel.soon; len(soon) > 0 {
		at = min(at, soon[0].at)
	}
	if at > v.x {
		return false
	}
	v.round++
	if at != v.at {
		v.at, v.round = at, 1
		m.slice.upTo = schemas.PublishedUpTo{At: m.clock.wall(at)}
	}
	for len(m.wheel.soon) > 0 && m.wheel.soon[0].at <= at {
		if e := m.wheel.soon.pop().e; m.dueAt(e, at) {
			v.batch = append(v.batch, e)
		}
	}
	slices.SortFunc(v.batch, func(a, b uint32) int { return cmp.Compare(m.store.hot(a).user, m.store.hot(b).user) })
	v.batch = slices.Compact(v.batch)
	return true
}

// dueAt reports whether the valid timer of e is due at the instant at.
func (m *Machine) dueAt(e uint32, at presence) bool {
	armed, counts := m.armedAt(e)
	return counts && armed <= at
}

// fire handles everything that is due by at for the user of a timer.
func (m *Machine) fire(e uint32, at presence) {
	u := m.load(e, &m.scratch)
	for limit := m.next(u); limit <= at; limit = m.next(u) {
		m.step(u, limit)
	}
	m.save(e, u, false)
}

// arm sets the timer of entry e for the next limit of u. If waiting is set, the current timer has
// not fired; it stays if it is not later than that limit, because it will be compared again.
func (m *Machine) arm(e uint32, u *user, waiting bool) {
	if m.adopting {
		return
	}
	limit := min(m.next(u), m.wheel.horizon())
	if waiting {
		if at, counts := m.armedAt(e); counts && at <= limit {
			return
		}
	}
	m.setTimer(e, limit)
}

// setTimer sets the valid timer of entry e.
func (m *Machine) setTimer(e uint32, at presence) {
	at = max(at, m.wheel.base) // it may have been due for weeks
	m.store.cold(e).armed = m.wheel.stamp(at)
	m.wheel.add(at, e)
}

// armedAt is the instant of the valid timer of entry e.
func (m *Machine) armedAt(e uint32) (presence, bool) {
	if e >= m.store.end() || m.store.hot(e).user == 0 {
		return 0, false
	}
	armed := m.store.cold(e).armed
	if armed == noInstant {
		return 0, false
	}
	return m.wheel.instant(armed), true
}

// touchEntries loads entries that are needed next, so that the loads overlap.
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

// lookAtTimer returns whether a timer of entry e in the bucket at the wheel's cursor is valid, and
// when it is due. Most users have been heard since the timer was set: it is set again, for later.
func (m *Machine) lookAtTimer(e uint32) (presence, bool) {
	at, counts := m.armedAt(e)
	if !counts || at/wheelStep != m.wheel.cursor/wheelStep {
		return 0, false // an earlier timer of this entry
	}
	h := m.store.hot(e)
	if h.flags&(flagMany|flagPresent) != flagPresent {
		return at, true
	}
	limit := m.clock.at(m.instant(h.seen)) + m.present
	if h.flags.state() == schemas.Online && m.idleAfter != 0 {
		if h.active == old {
			return at, true
		}
		limit = min(limit, limit-m.present-presence(h.seen-h.active)+m.idleAfter)
	}
	if limit < m.wheel.cursor+wheelStep {
		return at, true
	}
	m.setTimer(e, min(limit, m.wheel.horizon()))
	return 0, false
}

// place is a device's place in the release queue.
type place struct {
	until   presence // when the device would have fallen silent
	due     presence
	release presence
	seen    schemas.Millis
	user    schemas.UserID
	device  schemas.DeviceID
	life    uint16
}

// queue paces the devices of lost gateways, first in, first out.
type queue struct {
	places []place
	first  int
	free   int64 // presence time of the earliest release to be given, microseconds
}

// next is when the first device in the queue is released.
func (q *queue) next() presence {
	if q.first == len(q.places) {
		return never
	}
	return q.places[q.first].release
}

// busy reports whether releases before x may still delay the next one.
func (q *queue) busy(x presence) bool {
	return q.first < len(q.places) || q.free > int64(x)*1000
}

// queueUp makes a held device wait for its release.
func (m *Machine) queueUp(u *user, r *report) {
	r.phase = queued
	until := m.presentUntil(r)
	due := max(until+m.window, m.clock.at(m.policyFrom))
	m.joining = append(m.joining, place{until: until, due: due, seen: r.seen, user: u.id, device: r.device,
		life: r.life})
}

// join gives a place to each device that has become due.
func (m *Machine) join() {
	slices.SortStableFunc(m.joining, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device),
			cmp.Compare(a.seen, b.seen))
	})
	q := &m.queue
	if q.first > len(q.places)/2 {
		q.places = slices.Delete(q.places, 0, q.first)
		q.first = 0
	}
	for _, p := range m.joining {
		release := max(int64(p.due)*1000, q.free)
		q.free = release + m.cohortStep
		p.release = presence((release + 999) / 1000)
		q.places = append(q.places, p)
	}
	m.joining = m.joining[:0]
}

// release releases the first device of the queue, if it has not returned.
func (m *Machine) release() {
	q := &m.queue
	p := q.places[q.first]
	q.first++
	if q.first == len(q.places) {
		q.places, q.first = q.places[:0], 0
	}
	e := m.index.find(&m.store, m.index.hash(p.user), p.user)
	if e == none {
		return
	}
	u := m.load(e, &m.scratch)
	m.releaseDevice(u, p)
	m.save(e, u, true)
}

// movesPerTick bounds how many entries a tick moves to return memory.
const movesPerTick = 4096

// upkeep runs at ticks: it forgets what no longer matters and returns memory.
func (m *Machine) upkeep() {
	m.gateways.sweep()
	m.gateways.expire(&m.clock)
	if !m.replaying {
		m.out.Gateways = append(m.out.Gateways, m.gateways.ends...)
	}
	m.gateways.ends = m.gateways.ends[:0]
	m.wheel.trim()
	if len(m.clock.frozen) > 0 {
		const margin = 15 * 60 * 1000 // milliseconds
		m.clock.forget(m.clock.presence() - m.away - m.reach - m.foresight - m.flapBurst - 2*m.flapInterval - margin)
	}
	m.store.trim()
	for i := 0; i < movesPerTick && m.store.sparse(); i++ {
		m.compact()
		m.store.trim()
	}
}

// compact moves one entry from the last chunk into a hole before it. It continues where it stopped,
// and starts again at the chunk's first entry once it reaches the end.
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

// moveEntry moves a user to the free entry to. Its old timer will find a free entry.
func (m *Machine) moveEntry(from, to uint32) {
	h := *m.store.hot(from)
	m.index.move(m.index.hash(h.user), from, to)
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

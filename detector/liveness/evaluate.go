package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// evaluation is how far the evaluation of a record has come. Instants are handled one after
// another. At each, gateways fall silent first, then devices of lost gateways get their times to leave, then come the
// limits of users, in the order of their ids, and at last the breaker.
type evaluation struct {
	x     presence // everything due up to here
	from  presence // that of the record before
	at    presence // the instant being handled
	batch []uint32 // entries due at it
}

// MostDue is how many users limits change at one record. Limits behind these wait for the next record: the
// evaluation clock stands still before them. So the output of a record fits a transaction, however many are due.
const MostDue = 10_000

// evaluate publishes what is due, in order.
func (m *Machine) evaluate() {
	v, most := &m.evaluation, m.MostDue
	for m.nextInstant() {
		silent := m.gateways.nextSilence(&m.clock) <= v.at
		if silent {
			m.gateways.forgetSilent(&m.clock, v.at)
		}
		if m.gateways.plannedAt(&m.clock, m.reconnectWindow) <= v.at {
			m.gateways.plan(&m.clock, v.at, m.reconnectWindow, m.cohortStep)
		}
		for i, e := range v.batch {
			before := len(m.out.Statuses)
			if m.fire(e, v.at); len(m.out.Statuses) == before {
				continue
			}
			if most--; most == 0 {
				m.postpone(v.batch[i+1:])
				break
			}
		}
		if silent {
			m.tripBreaker(v.at)
		}
		if m.behind {
			return
		}
	}
}

// nextInstant finds the next instant up to x at which something is due.
func (m *Machine) nextInstant() bool {
	v := &m.evaluation
	v.batch = emptied(v.batch)
	at := min(m.gateways.nextSilence(&m.clock), m.gateways.plannedAt(&m.clock, m.reconnectWindow), m.gateways.unheard)
	for m.wheel.cursor <= min(at, v.x) && (len(m.wheel.soon) == 0 || m.wheel.soon[0].at >= m.wheel.cursor) {
		m.wheel.advance(m.prefetch, m.look)
	}
	if soon := m.wheel.soon; len(soon) > 0 {
		at = min(at, soon[0].at)
	}
	if at > v.x {
		return false
	}
	if at == m.gateways.unheard {
		m.armUnheard()
		return m.nextInstant()
	}
	v.at = at
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

// postpone leaves entries that are due at the instant at hand for the next record.
func (m *Machine) postpone(entries []uint32) {
	v := &m.evaluation
	for _, e := range entries {
		m.setTimer(e, v.at)
	}
	v.x = max(v.from, v.at-1)
	m.behind = true
}

// dueFar is how far ahead DueIn looks.
const dueFar presence = 2000

// DueIn is the time from the record applied last until a tick has something to do, milliseconds, at most dueFar; it may
// be earlier. 0: limits that are due wait for the next record; see MostDue.
func (m *Machine) DueIn() schemas.Millis {
	switch {
	case m.behind:
		return 0
	case m.clock.stopped != 0, m.store.sparse(), len(m.fading) > 0 && m.fading[0].at <= m.clock.now+schemas.Millis(dueFar):
		return 1
	}
	from := m.clock.presence() - m.lateness // not evaluated: a policy may have changed the lateness
	at := min(from+dueFar, m.gateways.nextSilence(&m.clock), m.gateways.plannedAt(&m.clock, m.reconnectWindow),
		m.gateways.unheard)
	if soon := m.wheel.soon; len(soon) > 0 {
		at = min(at, soon[0].at)
	}
	for c := m.wheel.cursor; c < at; c += wheelStep {
		if m.wheel.buckets[c/wheelStep%wheelBuckets] != nil {
			at = c
		}
	}
	if at <= m.evaluated {
		return 1
	}
	return schemas.Millis(max(1, at-from))
}

// fire handles everything that is due by at for the user of a timer.
func (m *Machine) fire(e uint32, at presence) {
	u := m.load(e, &m.scratch)
	m.settle(u, at)
	m.save(e, u, false)
}

// arm sets the timer of entry e for the next limit of u. If waiting is set, the current timer has
// not fired; it stays if it is not later than that limit, because it will be compared again.
func (m *Machine) arm(e uint32, u *user, waiting bool) {
	if m.adopting {
		return
	}
	next := m.next(u)
	if next == never { // an open connection: what ends it sets a timer
		m.store.cold(e).armed = noInstant
		return
	}
	limit := min(next, m.wheel.horizon())
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

// prefetchEntries loads entries that are needed next, so that the loads overlap.
func (m *Machine) prefetchEntries(entries []uint32) {
	var loaded uint32
	for _, e := range entries {
		if e < m.store.end() {
			loaded += m.store.hot(e).seen
		}
	}
	for _, e := range entries {
		if e < m.store.end() {
			loaded += m.store.cold(e).armed
		}
	}
	m.block.prefetched = loaded
}

// lookAtTimer returns whether a timer of entry e in the bucket at the wheel's cursor is valid, and
// when it is due. Most users have been heard since the timer was set: it is set again, for later.
func (m *Machine) lookAtTimer(e uint32) (presence, bool) {
	at, counts := m.armedAt(e)
	if !counts || at/wheelStep != m.wheel.cursor/wheelStep {
		return 0, false // an earlier timer of this entry
	}
	h := m.store.hot(e)
	if h.flags&(flagMany|flagHeld) != flagPresent || m.gateways.lives[h.life].lostAt != 0 {
		return at, true
	}
	t := m.timingOf(e, h)
	limit := m.clock.at(m.instant(h.seen)) + t.presentFor
	if h.flags.state() == schemas.Online && t.idleAfter != 0 {
		if h.active == beforeBase {
			return at, true
		}
		limit = min(limit, limit-t.presentFor-presence(h.seen-h.active)+t.idleAfter)
	}
	if limit < m.wheel.cursor+wheelStep {
		return at, true
	}
	m.setTimer(e, min(limit, m.wheel.horizon()))
	return 0, false
}

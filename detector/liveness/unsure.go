package liveness

import "github.com/stillhere/stillhere/schemas"

// A user is *unheard* while only devices of lost gateways are present: nobody knows
// whether the person is still there. Such a user gets one status with UnsureSince, and one without it
// when that ends; see ../DESIGN.md.

// unsureAfter is how long a user is unheard before a status says so: most devices return at once.
const unsureAfter presence = 1000

// unheardFrom is since when a visible user who is published as present is unheard; never: is heard. Devices of a
// gateway that drains or is outlived count as heard while it is, until they would have fallen silent.
func (m *Machine) unheardFrom(u *user) presence {
	if u.hidden || u.published().state == schemas.Offline || u.flaps.waiting != nil && u.flaps.waiting.hidden {
		return never
	}
	from := never
	for i := range u.reports {
		r := &u.reports[i]
		if r.bye {
			continue
		}
		l, since := &m.gateways.lives[r.life], m.presentUntil(r)
		switch {
		case l.lostAt == 0 || since == never:
			return never
		case l.closedAt != 0:
			since = min(since, m.clock.at(l.closedAt))
		}
		if from == never || since > from {
			from = since
		}
	}
	return from
}

// unsureAt is when a status says that u is unheard, if it does not yet, or is not any more, since a gateway was heard
// again or the detector restarted without a snapshot.
func (m *Machine) unsureAt(u *user) presence {
	from := never - unsureAfter
	if u.unsureSince == 0 {
		from = min(from, m.unheardFrom(u))
	}
	for i := 0; i < len(u.reports) && u.unsureSince != 0; i++ {
		r := &u.reports[i]
		if l := &m.gateways.lives[r.life]; r.live() && l.lostAt == 0 {
			from = min(from, m.clock.at(max(r.seen, l.resumed)))
		}
	}
	return from + unsureAfter
}

// updateUnsure notes that a user is unheard for long enough, or not any more.
func (m *Machine) updateUnsure(u *user) {
	switch {
	case u.unsureSince == 0:
		if max(m.unsureAt(u), m.clock.at(m.floor(u))) <= m.handled() {
			u.unsureSince, u.dirty = m.unsureFrom(u), true
		}
	case m.unheardFrom(u) > m.handled():
		u.unsureSince, u.unsureEnded, u.dirty = 0, true, true
	}
}

// armUnheard sets the timers of users whose gateways were lost or heard again, which is no record of theirs.
func (m *Machine) armUnheard() {
	m.gateways.unheard = never
	for e := range m.liveEntries() {
		h := m.store.hot(e)
		l := &m.gateways.lives[h.life] // of no matter with flagMany
		if h.flags&flagMany != 0 || h.flags&flagPresent != 0 && (l.closedAt != 0 || l.resumed != 0) {
			m.arm(e, m.load(e, &m.scratch), true)
		}
	}
}

// unsureFrom is since when no gateway can report u: the loss of the gateway, or a later report that
// came through it, but no instant at which u was hidden.
func (m *Machine) unsureFrom(u *user) (from schemas.Millis) {
	from = m.shownAt(u.id)
	for i := range u.reports {
		if r := &u.reports[i]; r.live() {
			from = max(from, m.lastHeard(r), m.gateways.lives[r.life].lostAt)
		}
	}
	return from
}

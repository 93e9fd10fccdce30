package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// A *held* device has an open connection: it is present as long as its gateway is heard, and in use until the gateway
// says otherwise. See ../DESIGN.md.

// inUse reports whether the person uses a held device.
func (r *report) inUse() bool { return r.held && r.active == r.seen }

// lose ends the holding as of b. The person touched the device as long ago as before, in presence time.
func (m *Machine) lose(r *report, b schemas.Millis) {
	seen := max(r.seen, b)
	switch {
	case r.inUse():
		r.active = seen
	case r.touched() == 0:
		r.active = seen - schemas.MaxIdle
	default:
		r.active = seen - schemas.Millis(m.clock.at(seen)-m.clock.at(r.active))
	}
	r.held, r.seen = false, seen
}

// lastHeard is when the device was heard last, also by what its gateway vouches for.
func (m *Machine) lastHeard(r *report) schemas.Millis {
	if r.held {
		return max(r.seen, m.heardThrough(r.life))
	}
	return r.seen
}

// heardThrough is when a gateway was heard last in a life.
func (m *Machine) heardThrough(life uint16) schemas.Millis {
	if l := &m.gateways.lives[life]; !l.leased {
		return l.heard
	}
	return max(m.gateways.lives[life].heard, m.clock.wall(m.handled()))
}

// lastTouched is when the person touched the device last; 0: not known.
func (m *Machine) lastTouched(r *report) schemas.Millis {
	if r.inUse() {
		return m.lastHeard(r)
	}
	return r.touched()
}

// touched is when the person last touched a device, as published or by the present devices.
func (m *Machine) touched(u *user) schemas.Millis {
	touched := u.lastActive
	for i := range u.reports {
		if r := &u.reports[i]; r.live() {
			touched = max(touched, m.lastTouched(r))
		}
	}
	return touched
}

// holds reports whether a connection of u is open.
func (u *user) holds() bool {
	return slices.ContainsFunc(u.reports, func(r report) bool { return r.held })
}

// mayBeDue reports whether a device of u is held, or was heard last before its gateway came back after a loss:
// armUnheard may not have set the timer yet.
func (m *Machine) mayBeDue(u *user) bool {
	return slices.ContainsFunc(u.reports, func(r report) bool {
		return r.held || r.seen < m.gateways.lives[r.life].resumed
	})
}

// holds reports whether connections may be held through the life: it is of one process.
func (g *gateways) holds(life uint16) bool { return life >= firstLife && !g.lives[life].endless() }

// ofConnection reports whether a report is of the connection that a row with the time b ends; without one, of any that
// is open and not newer. In frames that are numbered, no row of a life is older than one that came before.
func (m *Machine) ofConnection(r *report, beat *schemas.Beat, b schemas.Millis, life uint16) bool {
	of := r.connection == beat.Connection
	if beat.Connection == 0 {
		of = r.held && (r.seen <= b || m.ordered && r.life == life)
	}
	return of && r.device == beat.Device && r.live() && m.gateways.speaksFor(life, r.life)
}

// notOver is the earliest time of a row of the user at hand that is not over.
func (m *Machine) notOver() schemas.Millis { return m.clock.wall(m.evaluated - m.presentFor + 1) }

// disconnect ends the holding of a connection as of b, however long ago that is. It returns when its reports were seen
// last, and whether there are any.
func (m *Machine) disconnect(u *user, beat *schemas.Beat, b schemas.Millis, life uint16) (
	seen schemas.Millis, found bool,
) {
	for i := range u.reports {
		if r := &u.reports[i]; m.ofConnection(r, beat, b, life) {
			if r.held {
				m.lose(r, max(b, m.notOver()))
			}
			seen, found = max(seen, r.seen), true
		}
	}
	return seen, found
}

// stale reports whether a row that says that a connection is open comes later than what is known: of r, which is of the
// same device and life. The end of the connection is later than any such row, however late that was written.
func (r *report) stale(connection schemas.ConnectionID, b schemas.Millis) bool {
	switch {
	case r.bye && r.connection == connection:
		return true
	case !r.held && r.connection == connection:
		return r.seen >= b
	case r.held || r.bye && r.connection == 0:
		return r.seen > b
	}
	return false
}

// name keeps an open connection in a replacement, although the row that names it is older than what is known.
func (m *Machine) name(u *user, r *report) {
	if begun := m.gateways.lives[r.life].begun; r.seen < begun {
		if r.inUse() {
			r.active = begun
		}
		r.seen, u.lastSeen = begun, max(u.lastSeen, begun)
	}
}

// open makes the report of an open connection.
func (m *Machine) open(beat *schemas.Beat, b schemas.Millis, life uint16) report {
	r := report{device: beat.Device, kind: beat.Kind, life: life, connection: beat.Connection, held: true,
		seen: max(b, m.gateways.lives[life].begun)}
	if r.active = b - beat.Idle; beat.Idle == 0 {
		r.active = r.seen
	}
	return r
}

// endReplacement loses the devices that the gateway of the life did not name since it began to name all.
func (m *Machine) endReplacement(life uint16) {
	l := &m.gateways.lives[life]
	begun := l.begun
	if l.begun = 0; begun == 0 || l.empty {
		return // without a look at all users of the partition
	}
	for e := range m.liveEntries() {
		if h := m.store.hot(e); h.flags&flagMany == 0 && (h.life != life || h.flags&flagHeld != flagHeld) {
			continue
		}
		u, lost := m.load(e, &m.scratch), false
		for i := range u.reports {
			if r := &u.reports[i]; r.life == life && r.held && r.seen < begun {
				m.lose(r, m.clock.now)
				u.lastSeen, lost = max(u.lastSeen, r.seen), true
			}
		}
		if lost {
			m.save(e, u, true)
		}
	}
}

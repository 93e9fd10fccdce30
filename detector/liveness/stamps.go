package liveness

import "github.com/stillhere/stillhere/schemas"

// Entries keep instants as stamps: 32 bits of milliseconds since a base that the partition shares.
// A stamp never wraps: instants before the base are in a side table, with all their bits, and the
// base is moved, with all stamps, long before now is too far from it.
type stamp = uint32

const (
	noInstant  stamp = 0 // no instant at all
	beforeBase stamp = 1 // before the base: see Machine.olds
	atBase     stamp = 2 // the base itself

	// behindBase is how far the base is behind now when it is set, aheadOfBase how far now may get
	// before the base is moved: about 25 and 37 days.
	behindBase  = 1 << 31
	aheadOfBase = 3 << 30
)

// stampOf encodes t, which is not after now.
func (m *Machine) stampOf(t schemas.Millis) stamp {
	switch {
	case t == 0:
		return noInstant
	case t < m.base:
		return beforeBase
	}
	return stamp(t-m.base) + atBase
}

// instant decodes a stamp that is not beforeBase.
func (m *Machine) instant(s stamp) schemas.Millis {
	if s == noInstant {
		return 0
	}
	return m.base + schemas.Millis(s-atBase)
}

// oldTimes are instants of a user some of which lie before the base.
type oldTimes struct{ since, lastActive, active schemas.Millis }

// rebase moves the base, and all stamps, if now is far from it. It walks over all users, once in
// twelve days of log time or after a long absence.
func (m *Machine) rebase(now schemas.Millis) {
	p := m.clock.presence()
	if m.base != 0 && now-m.base < aheadOfBase && p-m.wheel.base < aheadOfBase {
		return
	}
	before, timers := m.base, m.wheel.base
	base, wheelBase := now-behindBase, p-behindBase
	if before == 0 {
		m.base, m.wheel.base = base, wheelBase
		return
	}
	for e := range m.liveEntries() {
		m.base, m.wheel.base = before, timers
		u := m.load(e, &m.scratch)
		armed, counts := m.armedAt(e)
		m.base, m.wheel.base = base, wheelBase
		m.encode(e, u)
		m.store.cold(e).armed = noInstant
		if counts {
			m.store.cold(e).armed = m.wheel.stamp(armed)
		}
	}
	m.base, m.wheel.base = base, wheelBase
}

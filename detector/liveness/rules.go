package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The rules of ../DESIGN.md on one decoded user: the effect of its limits.

// never is later than any limit.
const never = presence(1<<63 - 1)

// presentUntil is when a device falls silent if it is not heard again.
func (m *Machine) presentUntil(r *report) presence {
	until := m.clock.at(r.seen) + m.presentFor
	if m.gateways.lives[r.life].end == forwarded {
		until += m.reconnectWindow // whoever forwards may be gone for a while
	}
	return until
}

// activeUntil is when a present device stops being active, unless it falls silent before.
func (m *Machine) activeUntil(r *report) presence {
	if m.idleAfter == 0 {
		return never
	}
	return m.clock.at(r.seen) - presence(r.seen-r.active) + m.idleAfter
}

// idleFrom is when the last active device of u stops being active.
func (m *Machine) idleFrom(u *user) presence {
	var from presence
	for i := range u.reports {
		if r := &u.reports[i]; r.live() {
			from = max(from, m.activeUntil(r))
		}
	}
	return from
}

// tail is when a user without a device becomes offline.
func (m *Machine) tail(u *user) presence {
	if u.silentFrom != 0 {
		return m.clock.at(u.silentFrom) + m.awayFor + presence(u.releaseDelay)
	}
	return m.clock.at(u.lastBye()) + m.byeDebounce
}

// next is the earliest limit at which u may change without a record of its own, apart from releases
// from the queue. A policy makes nothing due before it is in force.
func (m *Machine) next(u *user) presence {
	limit, live := never, false
	for i := range u.reports {
		r := &u.reports[i]
		live = live || r.live()
		switch r.phase {
		case present:
			limit = min(limit, m.presentUntil(r))
		case inCohort:
			if !m.ahead {
				limit = min(limit, m.presentUntil(r)+m.reconnectWindow)
			}
		case saidBye:
			limit = min(limit, m.clock.at(r.seen)+m.byeMemory)
		}
	}
	switch {
	case live && u.state == schemas.Online:
		limit = min(limit, m.idleFrom(u))
	case !live && u.state != schemas.Offline:
		limit = min(limit, m.tail(u))
	}
	if m.tooMany(u) {
		limit = 0 // another policy
	}
	switch f := &u.flaps; {
	case f.waiting != nil:
		limit = min(limit, m.releaseAt(u))
	case u.state == schemas.Offline:
		if f.bucket != (bucket{}) {
			limit = min(limit, m.full(u))
		}
		if !m.ahead {
			limit = min(limit, m.decidedAt(u))
		}
	}
	return max(limit, m.clock.at(m.floor(u)))
}

// lookAhead publishes what is due for u at limits up to and including upTo, which may be beyond the
// evaluation clock. It gives no places in the queue: these are given to all users in order.
func (m *Machine) lookAhead(u *user, upTo presence) {
	m.ahead = true
	m.settle(u, upTo)
	m.ahead = false
}

// settle publishes what is due for u at limits up to and including upTo.
func (m *Machine) settle(u *user, upTo presence) {
	for limit := m.next(u); limit <= upTo; limit = m.next(u) {
		m.step(u, limit)
	}
}

// step does what is due for u at the instant limit, which is that of next.
func (m *Machine) step(u *user, limit presence) {
	idle := u.state == schemas.Online && m.idleFrom(u) <= limit
	byDevice, found := m.idleDevice(u, limit, idle)
	tailDevice := u.tailDevice() // before its bye is forgotten
	var went departures
	moved, evicted := false, false
	if m.tooMany(u) {
		moved, evicted = true, true
		if first := m.evictExcess(u); !found || first < byDevice {
			byDevice, found = first, true
		}
	}
	for i := 0; i < len(u.reports); {
		r := &u.reports[i]
		dropped, phase := false, r.phase
		switch {
		case r.phase == present && m.presentUntil(r) <= limit:
			if m.gateways.lost(&m.clock, r.life, m.presentUntil(r)) {
				r.phase = inCohort
				break
			}
			went.add(r)
			m.leave(u, r)
			dropped = true
		case r.phase == inCohort && !m.ahead && m.presentUntil(r)+m.reconnectWindow <= limit:
			m.queueUp(u, r)
		case r.phase == saidBye && m.clock.at(r.seen)+m.byeMemory <= limit:
			dropped = true
		}
		moved = moved || dropped || r.phase != phase
		if dropped {
			m.drop(u, i)
		} else {
			i++
		}
	}
	went.apply(u, 0, false)
	if went.n > 0 && (!found || went.device < byDevice) {
		byDevice, found = went.device, true
	}
	if !found {
		byDevice = tailDevice
	}
	m.judge(u, limit, max(m.clock.wall(limit), m.floor(u)), event{device: byDevice, evicted: evicted})
	if u.flaps.waiting != nil && m.releaseAt(u) <= limit {
		m.catchUp(u, limit)
	}
	if u.state == schemas.Offline {
		if f := &u.flaps; f.waiting == nil && f.bucket != (bucket{}) && m.full(u) <= limit {
			f.bucket, f.leftOut = bucket{}, 0
		}
		m.settleStatus(u)
	}
}

// tooMany reports whether u has more devices than the policy allows.
func (m *Machine) tooMany(u *user) bool {
	_, _, excess := m.excess(u)
	return excess
}

// idleDevice is the device whose idleness is the reason for a step.
func (m *Machine) idleDevice(u *user, limit presence, idle bool) (id schemas.DeviceID, found bool) {
	if !idle {
		return 0, false
	}
	for i := range u.reports {
		r := &u.reports[i]
		if r.live() && m.activeUntil(r) == limit && (!found || r.device < id) {
			id, found = r.device, true
		}
	}
	return id, found
}

// departures are the devices that fall silent at one instant.
type departures struct {
	n      int
	seen   schemas.Millis
	device schemas.DeviceID
}

func (w *departures) add(r *report) {
	if w.n == 0 || r.device < w.device {
		w.device = r.device
	}
	w.seen = max(w.seen, r.seen)
	w.n++
}

// apply makes u silent if these were its last devices. held is how much later than presentUntil
// they were removed; drained: because their gateway drained.
func (w *departures) apply(u *user, held schemas.Millis, drained bool) {
	if w.n == 0 || u.present() {
		return
	}
	u.silentFrom, u.releaseDelay, u.drained, u.last = w.seen, held, drained, w.device
}

// leave stores what only a removed device knew: the last touch.
func (m *Machine) leave(u *user, r *report) {
	u.lastActive = max(u.lastActive, r.touched())
}

// drop removes report i. The others keep their order.
func (m *Machine) drop(u *user, i int) {
	m.gateways.detach(&u.reports[i])
	u.reports = slices.Delete(u.reports, i, i+1)
}

// releaseDevice removes a device that has waited in the queue, if it has not been heard since it
// joined.
func (m *Machine) releaseDevice(u *user, p place) {
	m.settle(u, p.release)
	i := slices.IndexFunc(u.reports, func(r report) bool {
		return r.device == p.device && r.life == p.life && r.phase == queued && r.seen == p.seen
	})
	if i < 0 {
		return
	}
	r := &u.reports[i]
	drained := m.gateways.released(r.life)
	var went departures
	went.add(r)
	m.leave(u, r)
	m.drop(u, i)
	went.apply(u, schemas.Millis(p.release-p.until), drained)
	m.judge(u, p.release, max(m.clock.wall(p.release), m.floor(u)), event{device: p.device, released: true})
}

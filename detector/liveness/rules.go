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
	until, l := m.clock.at(m.lastHeard(r))+m.presentFor, &m.gateways.lives[r.life]
	switch {
	case r.held && l.closedAt == 0:
		return never
	case r.held: // users of lives that were lost are looked for then
		return max(until, m.clock.at(l.closedAt)+unsureAfter)
	case l.end == forwarded: // whoever forwards may be gone for a while
		return until + m.reconnectWindow
	case r.seen < l.resumed:
		return max(until, m.clock.at(l.resumed)+unsureAfter) + m.reconnectWindow
	}
	return until
}

// activeUntil is when a present device stops being active, unless it falls silent before.
func (m *Machine) activeUntil(r *report) presence {
	closed := m.gateways.lives[r.life].closedAt
	switch {
	case m.idleAfter == 0 || r.inUse() && closed == 0:
		return never
	case r.inUse():
		return max(m.clock.at(m.lastHeard(r))+m.idleAfter, m.clock.at(closed)+unsureAfter,
			m.gateways.planOf(&m.clock, r.life, m.reconnectWindow))
	case r.held:
		return m.clock.at(r.active) + m.idleAfter
	}
	return m.clock.at(r.seen) - presence(r.seen-r.active) + m.idleAfter
}

// activity is of which kinds the present devices are, and when the last active one of each kind stops being active;
// until[0] is that of all.
type activity struct {
	present schemas.KindSet
	until   [1 + len(schemas.Kinds)]presence
}

func (m *Machine) activity(u *user) (a activity) {
	for i := range u.reports {
		if r := &u.reports[i]; r.live() {
			at, k := m.activeUntil(r), schemas.KnownKind(r.kind)
			a.present, a.until[0], a.until[k] = a.present.With(k), max(a.until[0], at), max(a.until[k], at)
		}
	}
	return a
}

// kinds are those of u in a state, and of an online user the active ones at p: of those that were active, are in use or
// are in by, those that are.
func (m *Machine) kinds(u *user, a *activity, state schemas.State, p presence, by schemas.KindSet) schemas.KindSet {
	if state != schemas.Online {
		return a.present
	}
	for i := range u.reports {
		if r := &u.reports[i]; r.live() && r.inUse() && m.activeUntil(r) > p {
			by = by.With(r.kind)
		}
	}
	var active schemas.KindSet
	for _, k := range schemas.Kinds {
		if a.until[k] > p {
			active = active.With(k)
		}
	}
	if still := active & (u.kinds.Active() | by); still != 0 && m.announce {
		active = still
	}
	return a.present.WithActiveOf(active)
}

// idlesAt is when the first of u's active kinds stops being active; if that is not announced, when the last one does.
func (m *Machine) idlesAt(u *user) presence {
	a := m.activity(u)
	limit := a.until[0]
	for _, k := range schemas.Kinds {
		if m.announce && a.present&u.kinds.Active()&(1<<k) != 0 {
			limit = min(limit, a.until[k])
		}
	}
	return limit
}

// tail is when a user without a device becomes offline.
func (m *Machine) tail(u *user) presence {
	if u.silentFrom != 0 {
		return m.clock.at(u.silentFrom) + m.awayFor + presence(u.releaseDelay)
	}
	return m.clock.at(u.lastBye()) + m.byeDebounce
}

// next is the earliest limit at which u may change without a record of its own. A policy makes nothing due before it
// is in force.
func (m *Machine) next(u *user) presence {
	limit, live := m.overAt(u), false
	for i := range u.reports {
		if r := &u.reports[i]; r.bye {
			limit = min(limit, m.clock.at(r.seen)+m.byeMemory)
		} else {
			live, limit = true, min(limit, m.leavesAt(u, r))
		}
	}
	if !m.ahead {
		limit = min(limit, m.unsureAt(u))
	}
	switch {
	case live && u.state == schemas.Online:
		limit = min(limit, m.idlesAt(u))
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
// evaluation clock.
func (m *Machine) lookAhead(u *user, upTo presence) {
	m.ahead = true
	m.settle(u, upTo)
	m.ahead = false
}

// nextBefore is the earliest limit of u that lookAhead sees.
func (m *Machine) nextBefore(u *user) presence {
	m.ahead = true
	limit := m.next(u)
	m.ahead = false
	return limit
}

// settle publishes what is due for u at limits up to and including upTo.
func (m *Machine) settle(u *user, upTo presence) {
	for limit := m.next(u); limit <= upTo; limit = m.next(u) {
		m.step(u, limit)
	}
}

// step does what is due for u at the instant limit, which is that of next.
func (m *Machine) step(u *user, limit presence) {
	idle := u.state == schemas.Online && m.idlesAt(u) <= limit
	byDevice, found := m.idleDevice(u, limit, idle)
	tailDevice := u.tailDevice() // before its bye is forgotten
	var went departures
	evicted := m.tooMany(u)
	if evicted {
		if first := m.evictExcess(u); !found || first < byDevice {
			byDevice, found = first, true
		}
	}
	for i := 0; i < len(u.reports); {
		switch r := &u.reports[i]; {
		case r.bye && m.clock.at(r.seen)+m.byeMemory <= limit:
			m.drop(u, i)
		case !r.bye && m.leavesAt(u, r) <= limit:
			m.fallSilent(u, r, &went)
			m.drop(u, i)
		default:
			i++
		}
	}
	went.apply(u)
	if went.n > 0 && (!found || went.device < byDevice) {
		byDevice, found = went.device, true
	}
	if !found {
		byDevice = tailDevice
	}
	m.judge(u, limit, max(m.clock.wall(limit), m.floor(u)), event{device: byDevice, evicted: evicted})
	if m.overAt(u) <= limit {
		m.show(u, limit, u.hides(), u.withoutOverride(), u.over.Until, false)
	}
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

// tooMany reports whether u has more devices than the policy allows. It notes in u that it has not.
func (m *Machine) tooMany(u *user) bool {
	if int(u.most) <= m.maxDevices {
		return false
	}
	_, _, excess := m.excess(u)
	if !excess {
		u.most = uint16(m.maxDevices)
	}
	return excess
}

// idleDevice is the device whose idleness is the reason for a step.
func (m *Machine) idleDevice(u *user, limit presence, idle bool) (id schemas.DeviceID, found bool) {
	if !idle {
		return 0, false
	}
	a := m.activity(u)
	for i := range u.reports {
		r := &u.reports[i]
		if r.live() && m.activeUntil(r) == limit && a.until[schemas.KnownKind(r.kind)] == limit && (!found || r.device < id) {
			id, found = r.device, true
		}
	}
	return id, found
}

// departures are the devices that fall silent at one instant. Of the newest report: when it was seen, and if it was in
// a cohort, how its gateway had ended and how much longer it was held.
type departures struct {
	n      int
	device schemas.DeviceID
	seen   schemas.Millis
	held   schemas.Millis
	end    ending
}

// fallSilent makes a device leave.
func (m *Machine) fallSilent(u *user, r *report, w *departures) {
	if w.n == 0 || r.device < w.device {
		w.device = r.device
	}
	w.n++
	end := ongoing
	if until := m.presentUntil(r); m.gateways.lost(&m.clock, r.life, until) {
		m.gateways.lives[r.life].released++
		end = m.gateways.lives[r.life].end
	}
	if seen := m.lastHeard(r); seen > w.seen {
		w.seen, w.held, w.end = seen, schemas.Millis(m.leavesAt(u, r)-m.presentUntil(r)), end
	}
	m.leave(u, r)
}

// apply makes u silent if these were its last devices.
func (w *departures) apply(u *user) {
	if w.n > 0 && !u.present() {
		u.silentFrom, u.releaseDelay, u.end, u.last = w.seen, w.held, w.end, w.device
	}
}

// leave stores what only a removed device knew: when it was heard and touched last.
func (m *Machine) leave(u *user, r *report) {
	u.lastSeen, u.lastActive = max(u.lastSeen, m.lastHeard(r)), max(u.lastActive, m.lastTouched(r))
}

// drop removes report i. The others keep their order.
func (m *Machine) drop(u *user, i int) {
	m.gateways.detach(&u.reports[i])
	u.reports = slices.Delete(u.reports, i, i+1)
}

package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The rules of ../DESIGN.md, on one decoded user.

// never is later than any limit.
const never = presence(1<<63 - 1)

// presentUntil is when a device that is not heard again falls silent.
func (m *Machine) presentUntil(d *device) presence { return m.clock.at(d.seen) + m.present }

// activeUntil is when a device that is here stops being active, silence aside.
func (m *Machine) activeUntil(d *device) presence {
	if m.idleAfter == 0 {
		return never
	}
	return m.clock.at(d.seen) - presence(d.seen-d.active) + m.idleAfter
}

// idleFrom is when the last active device of u stops being so.
func (m *Machine) idleFrom(u *user) presence {
	var from presence
	for i := range u.devices {
		if d := &u.devices[i]; d.here() {
			from = max(from, m.activeUntil(d))
		}
	}
	return from
}

// tail is when a user without a device becomes offline.
func (m *Machine) tail(u *user) presence {
	if u.silentFrom != 0 {
		return m.clock.at(u.silentFrom) + m.away + presence(u.held)
	}
	return m.clock.at(u.lastBye()) + m.byeDebounce
}

// lastBye is the greatest time of the byes that are remembered, 0 if none is.
func (u *user) lastBye() schemas.Millis {
	var last schemas.Millis
	for i := range u.devices {
		if d := &u.devices[i]; d.phase == gone {
			last = max(last, d.seen)
		}
	}
	return last
}

// next is the earliest limit at which something about u may change by itself,
// releases from the queue aside.
func (m *Machine) next(u *user) presence {
	limit, here := never, false
	for i := range u.devices {
		d := &u.devices[i]
		here = here || d.here()
		switch d.phase {
		case present:
			limit = min(limit, m.presentUntil(d))
		case held:
			if !m.ahead {
				limit = min(limit, m.presentUntil(d)+m.window)
			}
		case gone:
			limit = min(limit, m.clock.at(d.seen)+m.byeMemory)
		}
	}
	switch {
	case here && u.state == schemas.Online:
		limit = min(limit, m.idleFrom(u))
	case !here && u.state != schemas.Offline:
		limit = min(limit, m.tail(u))
	}
	return limit
}

// lookAhead publishes what is due for u at limits up to and including upTo, which
// may be beyond the evaluation clock. Places in the queue are not given ahead of
// it: that is done for all users in order.
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
	byDevice := m.idleDevice(u, limit, idle)
	tailDevice := u.tailDevice() // before the bye that began the tail is forgotten
	var went departures
	for i := len(u.devices) - 1; i >= 0; i-- {
		d := &u.devices[i]
		switch {
		case d.phase == present && m.presentUntil(d) <= limit:
			if m.gateways.lost(&m.clock, d.gateway, m.presentUntil(d)) {
				d.phase = held
			} else {
				went.add(d)
				m.leave(u, d)
				u.drop(i)
			}
		case d.phase == held && !m.ahead && m.presentUntil(d)+m.window <= limit:
			d.phase = queued
			m.gateways.queued(d.gateway)
			m.joining = append(m.joining, place{due: m.presentUntil(d) + m.window, user: u.id, device: d.id})
		case d.phase == gone && m.clock.at(d.seen)+m.byeMemory <= limit:
			u.drop(i)
		}
	}
	went.apply(u, 0)
	if went.n > 0 && (byDevice == 0 || went.device < byDevice) {
		byDevice = went.device
	}
	if byDevice == 0 {
		byDevice = tailDevice
	}
	m.judge(u, limit, m.clock.wall(limit), event{device: byDevice})
}

// idleDevice is the device whose person's idleness is the reason for a step.
func (m *Machine) idleDevice(u *user, limit presence, idle bool) schemas.DeviceID {
	var id schemas.DeviceID
	if !idle {
		return id
	}
	for i := range u.devices {
		d := &u.devices[i]
		if d.here() && m.activeUntil(d) == limit && (id == 0 || d.id < id) {
			id = d.id
		}
	}
	return id
}

// departures collects the devices that fall silent at one instant.
type departures struct {
	n      int
	seen   schemas.Millis
	device schemas.DeviceID
}

func (w *departures) add(d *device) {
	if w.n == 0 || d.id < w.device {
		w.device = d.id
	}
	w.seen = max(w.seen, d.seen)
	w.n++
}

// apply makes u silent if these were its last devices. held is how much later
// than by the settings they went.
func (w *departures) apply(u *user, held schemas.Millis) {
	if w.n == 0 || u.anyHere() {
		return
	}
	u.silentFrom, u.held, u.last = w.seen, held, w.device
	u.dirty = true
}

// leave keeps what a device that leaves knew and others do not.
func (m *Machine) leave(u *user, d *device) {
	if d.active > u.lastActive {
		u.lastActive = d.active
		u.dirty = true
	}
}

// letGo takes a device out that has waited in the queue, if it has not come back
// since it was given the place.
func (m *Machine) letGo(u *user, p place) {
	id, release := p.device, p.release
	m.settle(u, release)
	d := u.find(id)
	if d == nil || d.phase != queued || m.presentUntil(d)+m.window != p.due {
		return
	}
	m.gateways.released(d.gateway)
	var went departures
	went.add(d)
	kept := schemas.Millis(release - m.presentUntil(d))
	m.leave(u, d)
	u.drop(slices.IndexFunc(u.devices, func(d device) bool { return d.id == id }))
	went.apply(u, kept)
	m.judge(u, release, m.clock.wall(release), event{device: id, letGo: true})
}

// report applies a beat or bye that came in at b through gateway.
func (m *Machine) report(u *user, beat *schemas.Beat, b schemas.Millis, gateway uint16) {
	at := m.clock.at(b)
	m.lookAhead(u, at)
	d := u.find(beat.Device)
	over := at+m.present <= m.evaluated
	switch {
	case d != nil && b < d.seen:
		return
	case beat.Bye && (d == nil || !d.here()):
		return
	case over && (d == nil || !d.here()):
		return
	case d == nil:
		u.devices = append(u.devices, device{id: beat.Device, phase: gone})
		d = &u.devices[len(u.devices)-1]
	}
	if d.here() {
		m.gateways.returned(&m.clock, d, gateway)
	}
	if over {
		gateway = 0 // no cohort for what is over when it comes
	}
	if beat.Bye {
		m.leave(u, d)
		d.phase, d.seen = gone, b
	} else {
		*d = device{id: beat.Device, kind: beat.Kind, phase: present, gateway: gateway, seen: b, active: b - beat.Idle}
		u.silentFrom, u.held = 0, 0
	}
	u.lastSeen = max(u.lastSeen, b)
	active := !beat.Bye && (m.idleAfter == 0 || presence(beat.Idle) < m.idleAfter)
	m.judge(u, at, b, event{device: beat.Device, active: active})
}

// setVisibility applies a change of visibility at the record's log time.
func (m *Machine) setVisibility(u *user, visibility schemas.Visibility) {
	m.lookAhead(u, m.clock.presence())
	if hidden := visibility == schemas.Nobody; hidden != u.hidden {
		u.hidden = hidden
		if u.anyHere() || u.silentFrom != 0 {
			u.kinds = u.presentKinds()
		}
		m.publish(u, u.state, m.clock.now, schemas.VisibilityChange, 0)
	}
}

package liveness

import (
	"cmp"

	"github.com/stillhere/stillhere/schemas"
)

// event is why a user is judged.
type event struct {
	device  schemas.DeviceID
	active  schemas.KindSet // the device's kind, if the device reported that its person is active
	evicted bool            // it took the place of another
	row     bool            // a row of the record being applied
}

// judge compares the state of u with what it was, and publishes a difference. at is the log time of
// the instant p.
func (m *Machine) judge(u *user, p presence, at schemas.Millis, why event) {
	a := m.activity(u)
	live := a.present != 0
	state := schemas.Offline
	switch {
	case live && (why.active != 0 || u.state == schemas.Online && a.until[0] > p):
		state = schemas.Online
	case live:
		state = schemas.Away
	case u.state == schemas.Offline || m.tail(u) <= p:
	case u.silentFrom != 0:
		state = schemas.Away
	default: // a bye is debounced: nothing changes yet
		m.settleStatus(u)
		return
	}
	kinds := m.kinds(u, &a, state, p, why.active)
	if state == u.state && (kinds == u.kinds || state == schemas.Offline || !m.announce) {
		m.settleStatus(u)
		return
	}
	m.become(u, p, newState{state: state, kinds: kinds, hidden: u.hidden, at: at, cause: u.cause(u.state, state, why.evicted),
		device: why.device, row: why.row})
}

// cause is the rule by which u goes from one state to the next, or changes its kinds.
func (u *user) cause(from, next schemas.State, evicted bool) schemas.Cause {
	switch {
	case next == from && evicted:
		return schemas.DeviceEvicted
	case next == from:
		return schemas.DevicesChanged
	case next == schemas.Online && from == schemas.Away:
		return schemas.ActiveAgain
	case from == schemas.Offline:
		return schemas.FirstBeat
	case u.present():
		return schemas.Idle
	case u.end == drained:
		return schemas.GatewayDrained
	case u.end != ongoing:
		return schemas.GatewayLost
	case u.silentFrom == 0:
		return schemas.Bye
	}
	return schemas.Silent
}

// tailDevice is the device that was present last; 0 while one is present.
func (u *user) tailDevice() schemas.DeviceID {
	if u.silentFrom != 0 {
		return u.last
	}
	var last *report
	for i := range u.reports {
		r := &u.reports[i]
		if r.bye && (last == nil ||
			cmp.Or(cmp.Compare(r.seen, last.seen), cmp.Compare(last.device, r.device)) > 0) {
			last = r
		}
	}
	if last == nil {
		return 0
	}
	return last.device
}

// newState is a state that a user enters, and why.
type newState struct {
	state  schemas.State
	kinds  schemas.KindSet
	hidden bool
	at     schemas.Millis
	cause  schemas.Cause
	device schemas.DeviceID
	row    bool // because of a row of the record being applied, not of a limit
}

// earliest is the instant before which no change of u may be: that of the last one, of a show, or of a lossy restart.
func (m *Machine) earliest(u *user) schemas.Millis {
	return max(u.since, m.shownAt(u.id), u.flaps.publishedAt, m.restartedAt)
}

// become applies b to u, and publishes it unless u changes too often.
func (m *Machine) become(u *user, p presence, b newState) {
	at, changesState := max(b.at, m.earliest(u)), b.state != u.state
	if b.row {
		at = max(at, m.decided())
		// For the bucket, a late row counts as of now: at an earlier instant the bucket may have
		// been dropped as full.
		p = max(p, m.evaluated)
	}
	if m.mayChange(u, p) {
		m.charge(u, p, changesState)
		c := change{from: u.state, at: at, cause: b.cause, device: b.device}
		u.state, u.kinds, u.hidden = b.state, b.kinds, b.hidden
		m.publish(u, c)
		return
	}
	u.leaveOut()
	m.counts.LeftOut++
	u.state, u.kinds, u.hidden = b.state, b.kinds, b.hidden
	m.settleStatus(u)
}

// setVisibility applies a change of visibility at the record's log time. Hiding is
// published at once, however often the user has changed.
func (m *Machine) setVisibility(u *user, visibility schemas.Visibility) {
	p := m.clock.presence()
	m.lookAhead(u, p)
	hidden := visibility == schemas.Nobody
	if hidden == u.hidden {
		m.settleStatus(u)
		return
	}
	kinds := u.kinds
	if u.present() || u.silentFrom != 0 {
		a := m.activity(u)
		kinds = m.kinds(u, &a, u.state, p, 0)
	}
	w := u.flaps.waiting
	if !hidden || w != nil && w.hidden {
		m.become(u, p, newState{state: u.state, kinds: kinds, hidden: hidden, at: m.clock.now,
			cause: schemas.VisibilityChange, row: true})
		return
	}
	c := change{from: u.state, at: max(m.clock.now, m.earliest(u)), cause: schemas.VisibilityChange}
	if w != nil {
		c.from = w.state
		if w.state != u.state {
			u.flaps.leftOut--
		}
		u.flaps.waiting = nil
	}
	u.kinds, u.hidden = kinds, true
	m.publish(u, c)
}

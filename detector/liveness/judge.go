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
	m.become(u, p, newState{facts: facts{state, kinds, u.hidden, u.over}, at: at, cause: u.cause(u.state, state, why.evicted),
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
	facts
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
	at, was := max(b.at, m.earliest(u)), u.judged()
	if b.row {
		at = max(at, m.decided())
		// For the bucket, a late row counts as of now: at an earlier instant the bucket may have
		// been dropped as full.
		p = max(p, m.evaluated)
	}
	if m.mayChange(u, p) {
		m.charge(u, p, turns(&was, &b.facts))
		m.take(u, b.facts)
		m.publish(u, change{was: was, at: at, cause: b.cause, device: b.device})
		return
	}
	u.leaveOut()
	m.counts.LeftOut++
	m.take(u, b.facts)
	m.settleStatus(u)
}

// take makes u as the rules have it now.
func (m *Machine) take(u *user, now facts) {
	if u.over != now.over {
		m.setOver(u.id, now.over)
	}
	u.state, u.kinds, u.hidden, u.over = now.state, now.kinds, now.hidden, now.over
}

// turns reports whether the state changes, without the override or as others see it.
func turns(was, now *facts) bool { return was.state != now.state || was.shown() != now.shown() }

// setVisibility applies a change of visibility at the record's log time. An invisible user stays invisible.
func (m *Machine) setVisibility(u *user, visibility schemas.Visibility) {
	m.lookAhead(u, m.clock.presence())
	hides, over := visibility == schemas.Nobody, u.over
	if over != nil && over.State == schemas.Invisible && over.Hides == hides {
		other := *over
		other.Hides, over = !hides, &other
	}
	m.show(u, m.clock.presence(), hides, over, m.clock.now, true)
}

// show makes u hide or not, under an override, at p and the log time at, because of a record or of a limit. That a user
// is hidden, or that others learn less of when the user was last here, is published at once, however often the user has
// changed.
func (m *Machine) show(u *user, p presence, hides bool, over *schemas.Override, at schemas.Millis, record bool) {
	now, cause := u.judged(), schemas.VisibilityChange
	if now.hidden, now.over = hides || over != nil && over.State == schemas.Invisible, over; now.hidden == u.hidden {
		cause = overrideCause(u.over, over)
		if sameOverride(over, u.over) {
			m.settleStatus(u)
			return
		}
	}
	if u.present() || u.silentFrom != 0 {
		a := m.activity(u)
		now.kinds = m.kinds(u, &a, u.state, p, 0)
	}
	was := u.published()
	if valueOf(now.over).LastSeen <= valueOf(was.over).LastSeen && (was.hidden || !now.hidden) {
		m.become(u, p, newState{facts: now, at: at, cause: cause, row: record})
		return
	}
	if u.flaps.waiting != nil {
		if turns(&was, &now) {
			u.flaps.leftOut--
		}
		u.flaps.waiting = nil
	}
	if cause = schemas.VisibilityChange; now.hidden == was.hidden { // with what waited
		cause = overrideCause(was.over, over)
	}
	m.take(u, now)
	m.publish(u, change{was: was, at: max(at, m.earliest(u)), cause: cause})
}

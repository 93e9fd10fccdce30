package liveness

import (
	"cmp"

	"github.com/stillhere/stillhere/schemas"
)

// event is why a user is judged.
type event struct {
	device   schemas.DeviceID
	active   bool // the device reported that its person is active
	evicted  bool // it took the place of another
	released bool // a device of a lost gateway was released
	row      bool // a row of the record being applied
}

// judge compares the state of u with what it was, and publishes a difference. at is the log time of
// the instant p.
func (m *Machine) judge(u *user, p presence, at schemas.Millis, why event) {
	live := u.present()
	state := schemas.Offline
	switch {
	case live && (why.active || u.state == schemas.Online && m.idleFrom(u) > p):
		state = schemas.Online
	case live:
		state = schemas.Away
	case u.state == schemas.Offline || m.tail(u) <= p:
	case u.silentFrom != 0:
		state = schemas.Away
	default: // a bye is debounced: nothing changes yet
		m.written(u)
		return
	}
	kinds := u.presentKinds()
	if state == u.state && (kinds == u.kinds || state == schemas.Offline || !m.announce) {
		m.written(u)
		return
	}
	m.become(u, p, becoming{state: state, kinds: kinds, hidden: u.hidden, at: at, cause: m.cause(u, state, live, why),
		device: why.device, row: why.row})
}

// cause is the rule by which u changes to the next state.
func (m *Machine) cause(u *user, next schemas.State, live bool, why event) schemas.Cause {
	switch {
	case next == u.state:
		return kindsCause(why.evicted)
	case next == schemas.Online && u.state == schemas.Away:
		return schemas.ActiveAgain
	case u.state == schemas.Offline:
		return schemas.FirstBeat
	case live:
		return schemas.Idle
	case (why.released || u.held > 0) && u.drained:
		return schemas.GatewayDrained
	case why.released || u.held > 0:
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
		if r.phase == saidBye && (last == nil ||
			cmp.Or(cmp.Compare(r.seen, last.seen), cmp.Compare(last.device, r.device)) > 0) {
			last = r
		}
	}
	if last == nil {
		return 0
	}
	return last.device
}

// becoming is what a user becomes, and why.
type becoming struct {
	state  schemas.State
	kinds  schemas.KindSet
	hidden bool
	at     schemas.Millis
	cause  schemas.Cause
	device schemas.DeviceID
	row    bool // because of a row of the record being applied, not of a limit
}

// become applies b to u, and publishes it unless u changes too often.
func (m *Machine) become(u *user, p presence, b becoming) {
	at, changesState := max(b.at, u.since), b.state != u.state
	if b.row {
		// For the bucket, a late row counts as of now: at an earlier instant the bucket may have
		// been dropped as full.
		p = max(p, m.evaluated)
	}
	if m.mayChange(u, p) {
		at = max(at, m.lastAt(u))
		m.charge(u, p, changesState, at)
		c := change{from: u.state, at: at, cause: b.cause, device: b.device}
		u.state, u.kinds, u.hidden = b.state, b.kinds, b.hidden
		m.publish(u, c)
		return
	}
	w := u.leaveOut()
	m.counts.LeftOut++
	if changesState {
		w.cause, w.device, u.since = b.cause, b.device, at
	}
	if b.kinds != u.kinds {
		w.kindsAt, w.kindsDevice, w.evicted = at, b.device, b.cause == schemas.DeviceEvicted
	}
	if b.hidden != u.hidden {
		w.visibilityAt = at
	}
	u.state, u.kinds, u.hidden = b.state, b.kinds, b.hidden
	m.written(u)
}

// setVisibility applies a change of visibility at the record's log time. Hiding is
// published at once, however often the user has changed.
func (m *Machine) setVisibility(u *user, visibility schemas.Visibility) {
	p := m.clock.presence()
	m.lookAhead(u, p)
	hidden := visibility == schemas.Nobody
	if hidden == u.hidden {
		return
	}
	kinds := u.kinds
	if u.present() || u.silentFrom != 0 {
		kinds = u.presentKinds()
	}
	w := u.flaps.waiting
	if !hidden || w != nil && w.hidden {
		m.become(u, p, becoming{state: u.state, kinds: kinds, hidden: hidden, at: m.clock.now,
			cause: schemas.VisibilityChange, row: true})
		return
	}
	c := change{from: u.state, at: max(m.clock.now, u.since, m.lastAt(u)), cause: schemas.VisibilityChange}
	if w != nil {
		c.from = w.state
		if w.state != u.state {
			u.flaps.leftOut--
		}
		u.settleSince()
	}
	u.kinds, u.hidden = kinds, true
	if !m.isFull(u, m.settled()) {
		u.flaps.publishedAt = c.at
	}
	m.publish(u, c)
}

// change is a transition in the making.
type change struct {
	from   schemas.State
	at     schemas.Millis
	cause  schemas.Cause
	device schemas.DeviceID
}

// publish emits the transition of u from what was published last to its current state, and its
// status.
func (m *Machine) publish(u *user, c change) {
	u.lastActive = u.touched()
	if c.from != u.state {
		u.since = c.at
	}
	m.emit(&schemas.Transition{
		User: u.id, From: c.from, To: u.state, At: c.at, LastSeen: u.lastSeen, LastActive: u.lastActive, Cause: c.cause,
		Device: c.device, Kinds: u.kinds, Visibility: visibilityOf(u.hidden), Policy: m.policyID,
		LeftOut: u.flaps.leftOut,
	})
	u.flaps.leftOut = 0
	u.dirty = true
	m.written(u)
}

// written writes the status of a dirty user, and makes an offline user forgettable.
func (m *Machine) written(u *user) {
	if u.state == schemas.Offline {
		switch {
		case m.replaying: // its status has what was known
			u.lastSeen = 0
		case !u.hidden && u.flaps.waiting == nil:
			u.refresh()
		}
		u.silentFrom, u.held, u.drained, u.kinds = 0, 0, false, 0
	}
	if u.dirty {
		u.dirty = false
		m.emitStatus(u)
	}
}

// lastBye is the greatest time of the remembered byes; 0: none is remembered.
func (u *user) lastBye() schemas.Millis {
	var last schemas.Millis
	for i := range u.reports {
		if r := &u.reports[i]; r.phase == saidBye {
			last = max(last, r.seen)
		}
	}
	return last
}

// refresh reduces what is known of an offline, visible user to the remembered byes.
func (u *user) refresh() {
	u.lastActive = 0
	u.lastSeen = u.lastBye()
	u.since = u.lastSeen
}

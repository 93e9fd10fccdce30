package liveness

import (
	"cmp"

	"github.com/stillhere/stillhere/schemas"
)

// event is what made the rules look at a user.
type event struct {
	device schemas.DeviceID
	active bool // the device reported that its person is active
	letGo  bool // a device of a lost gateway was let go
}

// judge compares what is with what was published, and publishes the difference.
// at is the log time of the instant p.
func (m *Machine) judge(u *user, p presence, at schemas.Millis, why event) {
	here := u.anyHere()
	state := schemas.Offline
	switch {
	case here && (why.active || u.state == schemas.Online && m.idleFrom(u) > p):
		state = schemas.Online
	case here:
		state = schemas.Away
	case u.state == schemas.Offline || m.tail(u) <= p:
	case u.silentFrom != 0:
		state = schemas.Away
	default: // a bye is being debounced: nothing changes yet
		m.written(u)
		return
	}
	kinds := u.presentKinds()
	if state == u.state && (kinds == u.kinds || state == schemas.Offline || !m.announce) {
		m.written(u)
		return
	}
	cause := m.cause(u, state, here, why)
	u.kinds = kinds
	m.publish(u, state, at, cause, why.device)
}

// cause names the rule by which u goes from its state to the next.
func (m *Machine) cause(u *user, next schemas.State, here bool, why event) schemas.Cause {
	switch {
	case next == u.state:
		return schemas.DevicesChanged
	case next == schemas.Online && u.state == schemas.Away:
		return schemas.ActiveAgain
	case u.state == schemas.Offline:
		return schemas.FirstBeat
	case here:
		return schemas.Idle
	case why.letGo || u.held > 0:
		return schemas.GatewayLost
	case u.silentFrom == 0:
		return schemas.Bye
	}
	return schemas.Silent
}

// tailDevice is the device that was the last to be here.
func (u *user) tailDevice() schemas.DeviceID {
	if u.silentFrom != 0 {
		return u.last
	}
	var last *device
	for i := range u.devices {
		d := &u.devices[i]
		if last == nil || cmp.Or(cmp.Compare(d.seen, last.seen), cmp.Compare(last.id, d.id)) > 0 {
			last = d
		}
	}
	if last == nil {
		return 0
	}
	return last.id
}

// publish emits a transition of u to state, and its status.
func (m *Machine) publish(u *user, state schemas.State, at schemas.Millis, cause schemas.Cause, device schemas.DeviceID) {
	at = max(at, u.since)
	u.lastActive = u.touched()
	t := schemas.Transition{
		User: u.id, From: u.state, To: state, At: at, LastSeen: u.lastSeen, LastActive: u.lastActive, Cause: cause,
		Device: device, Kinds: u.kinds, Visibility: u.visibility(), Policy: m.policy,
	}
	if state != u.state {
		u.since = at
	}
	u.state = state
	m.emit(&t)
	u.dirty = true
	m.written(u)
}

// written writes the status of a user who has become dirty, and lets an offline
// user be forgotten.
func (m *Machine) written(u *user) {
	if u.state == schemas.Offline && !u.hidden {
		u.refresh()
	}
	if u.state == schemas.Offline {
		u.silentFrom, u.held, u.kinds = 0, 0, 0
	}
	if u.dirty {
		u.dirty = false
		m.emitStatus(u)
	}
}

// refresh leaves of an offline, visible user only what the remembered byes tell.
func (u *user) refresh() {
	u.lastActive = 0
	u.lastSeen = u.lastBye()
	u.since = u.lastSeen
}

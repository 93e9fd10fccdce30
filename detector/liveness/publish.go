package liveness

import "github.com/stillhere/stillhere/schemas"

// change is a transition in the making.
type change struct {
	was    facts // what was published last
	at     schemas.Millis
	cause  schemas.Cause
	device schemas.DeviceID
}

// publish emits the transition of u from what was published last to its current state, and its
// status.
func (m *Machine) publish(u *user, c change) {
	m.noteTimes(u)
	now := u.judged()
	if turns(&c.was, &now) {
		u.since = c.at
	}
	t := m.transition(u, &now, c.at, c.cause)
	t.From, t.Device, t.LeftOut = c.was.shown(), c.device, u.flaps.leftOut
	m.emit(&t)
	switch {
	case c.was.hidden == u.hidden:
	case u.hidden:
		m.setShown(u.id, 0)
	default:
		m.setShown(u.id, c.at)
	}
	u.flaps.leftOut, u.flaps.publishedAt = 0, c.at
	u.dirty = true
	m.settleStatus(u)
}

// noteTimes notes when u was last seen and active, by its reports.
func (m *Machine) noteTimes(u *user) {
	u.lastActive = m.touched(u)
	for i := range u.reports {
		if r := &u.reports[i]; r.inUse() {
			u.lastSeen = max(u.lastSeen, m.lastHeard(r))
		}
	}
}

// transition is that of u to now, without what it was before.
func (m *Machine) transition(u *user, now *facts, at schemas.Millis, cause schemas.Cause) schemas.Transition {
	shown, over := m.shownAt(u.id), now.override()
	over.LastSeen = max(over.LastSeen, m.mostLastSeen)
	return schemas.Transition{
		User: u.id, To: now.shown(), At: at, LastSeen: notBefore(shown, u.lastSeen),
		LastActive: notBefore(shown, u.lastActive), Cause: cause,
		Kinds: now.shownKinds(), Visibility: visibilityOf(now.hidden), Policy: m.policyID, Override: over,
	}
}

// settleStatus writes the status of a dirty user. Of an offline user it first forgets what nothing needs any more.
func (m *Machine) settleStatus(u *user) {
	if u.state == schemas.Offline {
		u.kinds = 0
		if u.flaps.waiting == nil {
			u.silentFrom, u.releaseDelay, u.end = 0, 0, ongoing
			if !u.hidden {
				u.refresh()
			}
		}
	}
	m.refill(u)
	m.updateUnsure(u)
	if u.dirty {
		u.dirty = false
		m.emitStatus(u)
	}
}

// lastBye is the greatest time of the remembered byes; 0: none is remembered.
func (u *user) lastBye() schemas.Millis {
	var last schemas.Millis
	for i := range u.reports {
		if r := &u.reports[i]; r.bye {
			last = max(last, r.seen)
		}
	}
	return last
}

// refresh reduces what is known of an offline, visible user to the remembered byes.
func (u *user) refresh() {
	u.lastActive = 0
	u.lastSeen = u.lastBye()
}

// emit appends t to the output, with its version.
func (m *Machine) emit(t *schemas.Transition) {
	t.Version = m.version(m.ordinals.take(t.User))
	m.out.Transitions = append(m.out.Transitions, *t)
}

func (m *Machine) version(ordinal int) schemas.Version {
	return schemas.NewVersion(m.logEpoch, m.offset-m.versionBase(), ordinal)
}

// emitStatus appends the status of u, as published last. Its version lies between those of u's newest transition
// and the next: it is that of the newest transition if this record caused it, else the last before this record.
func (m *Machine) emitStatus(u *user) {
	w := u.published()
	s := schemas.Status{
		User: u.id, State: w.shown(), Since: u.since, LastSeen: u.lastSeen, LastActive: u.lastActive, Kinds: w.kinds,
		Visibility: visibilityOf(w.hidden), Version: m.version(m.ordinals.of(u.id)) - 1,
		UnsureSince: u.unsureSince, UnsureEnded: u.unsureEnded, Override: w.override(),
	}
	u.unsureEnded = false
	m.addPrivacy(&s)
	m.out.Statuses = append(m.out.Statuses, s)
}

package liveness

import "github.com/stillhere/stillhere/schemas"

// flaps bounds how often a user may change, by a bucket that every published change draws on (GCRA,
// ITU-T I.371). The zero value, which nearly all users have, is a full bucket, or one as full as
// since implies (see full).
type flaps struct {
	bucket bucket
	// publishedAt is at of the newest transition, if it is later than since, and a change could still lie
	// before it.
	publishedAt schemas.Millis
	leftOut     uint32 // unpublished changes since the newest published one
	waiting     *facts
}

// bucket is a token bucket: at log time at it needed lacks milliseconds of presence time to be full.
type bucket struct{ at, lacks schemas.Millis }

// facts are what is published of a user, or would be if no change waited for the bucket. While changes wait, since stays
// as published.
type facts struct {
	state  schemas.State // without the override
	kinds  schemas.KindSet
	hidden bool
	over   *schemas.Override
}

// shown is the state that others see.
func (w *facts) shown() schemas.State { return shownAs(w.over, w.state) }

// judged is u as the rules have it.
func (u *user) judged() facts { return facts{u.state, u.kinds, u.hidden, u.over} }

// published is u as it was published last.
func (u *user) published() facts {
	if w := u.flaps.waiting; w != nil {
		return *w
	}
	return u.judged()
}

// full is when u's bucket is full again.
//
// A change of state that finds the bucket full stores none: it counts twice, and since is its
// instant. So most users need no bucket, and a user who goes offline and is forgotten has paid for
// the return.
func (m *Machine) full(u *user) presence {
	var full presence
	if b := u.flaps.bucket; b != (bucket{}) {
		full = m.clock.at(b.at) + presence(b.lacks)
	}
	if u.published().state == schemas.Offline {
		return full
	}
	return max(full, m.clock.at(u.since)+2*m.flapInterval)
}

// mayChange reports whether a change of u at p may be published.
func (m *Machine) mayChange(u *user, p presence) bool {
	return u.flaps.waiting == nil && (m.flapBurst == 0 || m.full(u)-p <= m.flapBurst)
}

// releaseAt is when a change of u that waits may be published.
func (m *Machine) releaseAt(u *user) presence { return m.full(u) - m.flapBurst }

// charge draws a change of u at p, from the state before, on the bucket. It is called
// before the change.
func (m *Machine) charge(u *user, p presence, stateChanges bool) {
	lacks := max(0, m.full(u)-p)
	if m.flapBurst == 0 || lacks == 0 && stateChanges {
		u.flaps.bucket = bucket{}
		return
	}
	u.flaps.bucket = bucket{at: m.clock.wall(p), lacks: schemas.Millis(lacks + m.flapInterval)}
}

// lateRows is how late a row may be and still change its user at its own time.
const lateRows presence = 60_000

// decided is the instant up to which no row changes a user any more.
func (m *Machine) decided() schemas.Millis { return m.clock.wall(m.evaluated - lateRows) }

// forgetInstants forgets when u changed last if that is decided.
func (m *Machine) forgetInstants(u *user) {
	f := &u.flaps
	if f.waiting != nil || u.since == 0 && f.publishedAt == 0 {
		return
	}
	decided := m.clock.wall(m.handled() - lateRows)
	if f.publishedAt <= max(u.since, decided) {
		f.publishedAt = 0
	}
	if u.state == schemas.Offline && !u.hidden && u.since <= decided {
		u.since = 0
	}
}

// decidedAt is when an offline user's last change is decided; never: it is, or is remembered for good.
func (m *Machine) decidedAt(u *user) presence {
	last := u.flaps.publishedAt
	if !u.hidden {
		last = max(last, u.since)
	}
	if last == 0 {
		return never
	}
	return m.clock.at(last) + lateRows + 1
}

// handled is the instant that is being handled: that of the limit, but not before the evaluation clock at the
// record before, or the evaluation clock if all limits have been handled. No change to come lies a report's
// longest time before it, so what is forgotten by it does not depend on where a tick was.
func (m *Machine) handled() presence {
	return min(m.evaluated, max(m.evaluation.from, m.evaluation.at))
}

// refill drops the bucket of u if it has been full for so long that no report of that time can come, by the
// pipeline's policy. At limits, that of an offline user is dropped as soon as it is full.
func (m *Machine) refill(u *user) {
	f := &u.flaps
	if u.state != schemas.Offline && f.bucket != (bucket{}) && f.waiting == nil && m.full(u) <= m.handled()-m.pipeline.presentFor {
		f.bucket = bucket{}
	}
	m.forgetInstants(u)
}

// leaveOut notes a change of u that may not be published now. It is called before the
// change.
func (u *user) leaveOut() {
	if u.flaps.waiting == nil {
		was := u.judged()
		u.flaps.waiting = &was
	}
	u.flaps.leftOut++
}

// catchUp publishes at p, in one transition, what u has become while its changes waited, if that differs from what
// was published last.
func (m *Machine) catchUp(u *user, p presence) {
	w := u.flaps.waiting
	c := change{was: *w, at: max(m.clock.wall(p), m.floor(u), m.earliest(u)), cause: u.cause(w.state, u.state, false)}
	switch {
	case u.hidden != w.hidden:
		c.cause = schemas.VisibilityChange
	case !sameOverride(u.over, w.over):
		c.cause = overrideCause(w.over, u.over)
	case u.state != w.state:
	case u.kinds == w.kinds || u.state == schemas.Offline || !m.announce:
		u.kinds, u.flaps.waiting = w.kinds, nil // as published: what waited is not announced
		m.settleStatus(u)
		return
	}
	now := u.judged()
	m.charge(u, p, turns(w, &now))
	u.flaps.waiting = nil
	u.flaps.leftOut--
	m.publish(u, c)
}

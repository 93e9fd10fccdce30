package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// A lossy restart has no snapshot: users are what their statuses say, and whoever is present counts as heard
// at that moment. Unknown is not offline.

// Checkpoint is what the commit after the record applied last says of the state.
func (m *Machine) Checkpoint() schemas.Checkpoint {
	return schemas.Checkpoint{LogEpoch: m.logEpoch, LogTime: m.clock.now, Bases: m.bases,
		Policy: m.policy, Tenants: m.marks()}
}

// BeginLossy prepares a new machine for a lossy restart. c is nil if the commit is lost: then pass the records
// that had been handled to Pass.
func (m *Machine) BeginLossy(c *schemas.Checkpoint) {
	if m.lossy = c; c == nil {
		return
	}
	m.logEpoch, m.bases = c.LogEpoch, slices.Clone(c.Bases)
	if len(m.bases) == 0 {
		m.bases = []schemas.EpochBase{{LogEpoch: c.LogEpoch}}
	}
	if c.Policy != (schemas.PolicyInForce{}) {
		m.takePolicy(c.Policy)
	}
	m.clock.now = c.LogTime
}

func (m *Machine) takePolicy(p schemas.PolicyInForce) {
	m.policy = p
	m.setPolicy(p.Policy, p.At)
	m.policyFrom = p.At
}

// Pass applies only the time and the policy of a record that had been handled before the commit was
// lost.
func (m *Machine) Pass(offset int64, appended schemas.Millis, f *schemas.Frame) {
	m.clock.advance(appended, m.breakerLimit)
	if f.Policy != nil && *f.Policy != m.policy.Policy {
		m.takePolicy(schemas.PolicyInForce{Offset: offset, At: m.nextPolicyFrom(), Policy: *f.Policy})
	}
}

// BeginAdopt follows BeginLossy and Pass. Then pass every record of the status topic to Adopt, in order. latest is
// the latest instant of a transition, if there is no checkpoint.
func (m *Machine) BeginAdopt(latest schemas.Millis) {
	m.adopting, m.latest = true, latest
	if latest = max(latest, m.clock.now); latest != 0 {
		m.rebase(latest)
	}
}

// demote makes u an unknown user.
func (m *Machine) demote(u *user) {
	id, reports := u.id, u.reports[:0]
	*u = user{id: id, state: schemas.Offline, reports: reports}
}

// Adopt applies a committed status of a user; s is nil for a tombstone, and left then is when the user left, 0 if
// that is not known. The topic may have several statuses of a user, the newest last.
func (m *Machine) Adopt(id schemas.UserID, s *schemas.Status, left schemas.Millis) {
	delete(m.privacy, id)
	delete(m.tenants.away, id)
	delete(m.tenants.named, id)
	if m.clock.at(left)+lateRows < m.clock.presence()-m.lateness {
		left = 0 // that is decided
	}
	u := &m.scratch
	e := m.index.find(&m.store, m.index.hash(id), id)
	switch {
	case e != none:
		u = m.load(e, u)
	case s == nil && left == 0:
		delete(m.hidden, id)
		return
	case m.foreign(id):
		return
	default:
		e = m.enter(id, u)
	}
	m.demote(u)
	if m.lossy == nil {
		latest := max(left, m.latest, m.clock.now)
		if s != nil {
			latest = max(latest, s.Since, s.LastSeen, s.LastActive, s.PublishedAt)
		}
		m.rebase(latest)
	}
	if u.since = left; s != nil {
		m.adopt(u, s)
	}
	m.save(e, u, true)
}

// adopt applies s to u.
func (m *Machine) adopt(u *user, s *schemas.Status) {
	m.adoptTenant(u, s)
	u.state, u.kinds, u.hidden = s.State, s.Kinds, s.Visibility == schemas.Nobody
	u.since, u.lastActive, u.lastSeen = s.Since, s.LastActive, s.LastSeen
	u.last, u.unsureSince = s.Device, s.UnsureSince
	m.setPrivacy(u.id, privacyRecord{shownAt: s.ShownAt, erased: s.ErasedVersion, withheld: s.WithheldUntil})
	u.flaps = flaps{bucket: s.Bucket, publishedAt: s.PublishedAt, leftOut: s.LeftOut}
	if s.Bucket.Lacks == 0 {
		u.flaps.bucket = schemas.Bucket{}
	}
	if s.State != schemas.Offline && s.Pending.State == 0 && s.PolicyAt != m.policyFrom {
		u.flaps.bucket = schemas.Bucket{}
	}
	if p := &s.Pending; p.State != 0 {
		u.flaps.waiting = &waiting{state: s.State, kinds: s.Kinds, hidden: u.hidden, since: s.Since, kindsAt: p.KindsAt,
			visibilityAt: p.VisibilityAt, cause: p.Cause, device: p.Device, kindsDevice: p.KindsDevice,
			evicted: p.Evicted}
		u.state, u.kinds, u.hidden, u.since = p.State, p.Kinds, p.Visibility == schemas.Nobody, p.Since
	}
	if s.State == schemas.Offline && s.Visibility != schemas.Nobody && s.Pending.State == 0 {
		u.since, u.flaps.publishedAt = max(s.Since, s.PublishedAt), 0
	}
	u.silentFrom, u.releaseDelay, u.drained = s.SilentFrom, s.Held, s.Drained
}

// StartEpoch begins another log epoch, whose versions count from the offset base. Call it between
// BeginLossy and EndLossy.
func (m *Machine) StartEpoch(logEpoch uint32, base int64) { m.startEpoch(logEpoch, base) }

// EndLossy prepares the machine for the next record. Without a checkpoint, time continues from the latest
// published instant. It returns the number of users who are presumed to have been heard now.
func (m *Machine) EndLossy() (presumed int) {
	if m.lossy == nil {
		if latest := m.latestInstant(); latest > m.clock.now {
			m.clock.advance(latest, m.breakerLimit)
		}
	}
	m.lossy, m.adopting = nil, false
	m.tenants.orderNamings()
	for id, k := range m.privacy {
		m.setPrivacy(id, k)
	}
	if m.clock.now == 0 {
		return 0 // nothing was ever heard, or published
	}
	m.rebase(m.clock.now)
	m.evaluated = m.clock.presence() - m.lateness
	if m.clock.stopped != 0 {
		m.evaluated = m.clock.presence()
	}
	m.wheel.restart(m.evaluated)
	for e := range m.liveEntries() {
		u := m.load(e, &m.scratch)
		if u.state == schemas.Offline && !u.hidden && u.flaps.waiting == nil {
			u.refresh()
		}
		if u.state != schemas.Offline && u.silentFrom == 0 {
			m.presume(u)
		}
		m.save(e, u, false)
	}
	slices.Sort(m.presumed)
	return len(m.presumed)
}

// latestInstant is the latest instant that is known of any user.
func (m *Machine) latestInstant() schemas.Millis {
	latest := m.latest
	for e := range m.liveEntries() {
		u := m.load(e, &m.scratch)
		latest = max(latest, u.since, u.lastSeen, u.lastActive, u.flaps.publishedAt, u.flaps.bucket.At)
	}
	for _, h := range m.hidden {
		latest = max(latest, h.since, h.lastSeen, h.lastActive)
	}
	return latest
}

// presume gives devices to a user who is present: of the kinds in its status, heard now.
func (m *Machine) presume(u *user) {
	kinds := u.kinds
	if kinds == 0 {
		kinds = kinds.With(schemas.Other)
	}
	now := m.clock.now
	active := now
	if u.state == schemas.Away {
		active -= schemas.Millis(m.idleAfter)
	}
	for _, kind := range kinds.Append(nil) {
		u.reports = append(u.reports, report{kind: kind, seen: now, active: active})
	}
	u.lastSeen = max(u.lastSeen, now)
	u.unsureEnded, u.unsureSince = u.unsureSince != 0, 0
	m.presumed = append(m.presumed, u.id)
}

// writePresumed writes the statuses of users with presumed devices.
func (m *Machine) writePresumed() {
	for _, id := range m.presumed {
		if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
			m.emitStatus(m.load(e, &m.scratch))
		}
	}
	m.presumed = nil
}

// liveEntries yields the entries in use. The body may free the one it is given.
func (m *Machine) liveEntries() func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for e := uint32(0); e < m.store.end(); e++ {
			if m.store.hot(e).user != 0 && !yield(e) {
				return
			}
		}
	}
}

package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// A lossy restart has no snapshot: users are what their statuses say, and whoever is present counts as heard
// at that moment. Unknown is not offline.

// Checkpoint is what the commit after the record applied last says of the state.
func (m *Machine) Checkpoint() schemas.Checkpoint {
	return schemas.Checkpoint{LogEpoch: m.logEpoch, LogTime: m.clock.now, Bases: m.bases, Policy: m.policy}
}

// BeginLossy prepares a new machine for a lossy restart. c is nil if the commit is lost. Then pass the rules of the
// partition to AdoptRules, all records of the status topic in their order to Adopt, and the records that had been
// handled, without a commit, to Pass.
func (m *Machine) BeginLossy(c *schemas.Checkpoint) {
	m.adopting = true
	if m.lossy = c; c == nil {
		return
	}
	defer func() { m.rebase(m.clock.now) }()
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

// Pass applies only the time of a record that had been handled before the commit was lost.
func (m *Machine) Pass(appended schemas.Millis) { m.clock.advance(appended, m.breakerLimit) }

// AdoptRules takes the policies of the partition, after BeginLossy.
func (m *Machine) AdoptRules(r *schemas.PartitionRules) {
	if m.lossy == nil {
		m.takePolicy(schemas.PolicyInForce{Policy: r.Policy})
	}
	for i := range r.Tenants {
		m.tenants.all[m.addNumber(r.Tenants[i].Tenant)].policy = r.Tenants[i].Policy
	}
	m.setTimings(m.policy.Policy)
}

// Adopt applies the status of a user; nil for a tombstone. The topic may have several of a user, the newest last.
func (m *Machine) Adopt(id schemas.UserID, s *schemas.Status) {
	if m.foreign(id) {
		return
	}
	delete(m.hidden, id)
	delete(m.privacy, id)
	delete(m.overrides, id)
	delete(m.denied, id)
	if s != nil && s.Override != (schemas.Override{}) {
		over := s.Override
		over.Automatic = 0
		m.overrides[id] = orNone(over)
	}
	e, u := m.index.find(&m.store, m.index.hash(id), id), &m.scratch
	if s == nil || s.Absent() {
		if e != none {
			u = m.load(e, u)
			u.reset(id)
			m.save(e, u, true)
		}
	} else {
		if m.lossy == nil {
			m.rebase(max(m.clock.now, s.Since, s.LastSeen, s.LastActive)) // before u is loaded: it encodes all entries
		}
		if e == none {
			e = m.enter(id, u)
		} else {
			u = m.load(e, u)
		}
		u.state, u.kinds, u.hidden = cmp.Or(s.Override.Automatic, s.State), s.Kinds, s.Visibility == schemas.Nobody
		u.since, u.lastActive, u.lastSeen, u.unsureSince = s.Since, s.LastActive, s.LastSeen, s.UnsureSince
		m.save(e, u, true)
	}
	if s != nil {
		m.setPrivacy(id, privacyRecord{shownAt: s.ShownAt, erased: s.ErasedVersion, withheld: s.WithheldUntil})
	}
}

// EndLossy prepares the machine for the next record. Without a checkpoint, time continues from latest, which is the
// latest instant of a transition, or from a later one of a status. It returns the number of users who are presumed to
// have been heard now.
func (m *Machine) EndLossy(latest schemas.Millis) (presumed int) {
	if latest = m.latestInstant(latest); m.lossy == nil && latest > m.clock.now {
		m.clock.advance(latest, m.breakerLimit)
	}
	m.lossy, m.adopting = nil, false
	for id, k := range m.privacy {
		m.setPrivacy(id, k)
	}
	if m.clock.now == 0 {
		return 0 // nothing was ever heard, or published
	}
	m.restartedAt = m.clock.now
	m.rebase(m.clock.now)
	m.evaluated = m.clock.presence() - m.lateness
	if m.clock.stopped != 0 {
		m.evaluated = m.clock.presence()
	}
	m.wheel.restart(m.evaluated)
	for e := range m.liveEntries() {
		u := m.load(e, &m.scratch)
		if u.state != schemas.Offline {
			m.presume(u)
			presumed++
		} else if !u.hidden {
			u.refresh()
		}
		m.save(e, u, false)
	}
	return presumed
}

// latestInstant is the latest instant that is known of any user, or a later one.
func (m *Machine) latestInstant(latest schemas.Millis) schemas.Millis {
	for e := range m.liveEntries() {
		u := m.load(e, &m.scratch)
		latest = max(latest, u.since, u.lastSeen, u.lastActive)
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
		kinds = kinds.With(schemas.Other).As(u.state)
	}
	now := m.clock.now
	for _, kind := range kinds.Append(nil) {
		active := now
		if kinds.Active()&(1<<kind) == 0 {
			active -= schemas.Millis(m.idleAfter)
		}
		u.reports = append(u.reports, report{kind: kind, seen: now, active: active})
	}
	u.lastSeen = max(u.lastSeen, now)
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

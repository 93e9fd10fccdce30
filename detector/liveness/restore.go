package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Checkpoint is what must be kept with the committed offset to come back to this
// state: see the package's Restart. The offset is next; while the record applied last
// has more to put out, it is that of the record. TopicID is left to the caller.
func (m *Machine) Checkpoint(next int64) schemas.Checkpoint {
	at, stops, disarmed, bases := m.clock, m.breaker.stops, m.breaker.disarmed, m.bases
	if m.slice.pending {
		at, stops, disarmed, bases = m.slice.before, m.slice.stops, m.slice.disarmed, m.slice.bases
	}
	c := schemas.Checkpoint{LogEpoch: bases[len(bases)-1].LogEpoch, LogTime: at.now, ReplayOffset: next, ReplayLogTime: at.now,
		Bases: slices.Clone(bases), Policies: slices.Clone(m.policies), Stops: slices.Clone(stops), Disarmed: disarmed}
	if from, ok := m.history.replay(); ok {
		c.ReplayOffset, c.ReplayLogTime, c.GatewaysFirst = from.offset, from.before, !from.first
	}
	for _, s := range at.frozen {
		if !slices.ContainsFunc(stops, func(b schemas.BreakerStop) bool { return b.Start == s.Start }) {
			c.Frozen = append(c.Frozen, s)
		}
	}
	if m.slice.pending || m.presumedAt != 0 {
		var upTo schemas.PublishedUpTo
		if m.slice.pending {
			upTo = m.slice.upTo
		}
		upTo.PresumedAt = m.presumedAt
		c.Published = &upTo
	}
	return c
}

// BeginReplay makes a new machine ready to re-read heartbeats with Apply, which publishes
// nothing until EndReplay: from the checkpoint's replay offset up to the committed one.
// c is nil when no checkpoint is known. lossy tells that not all of these records are
// there any more.
func (m *Machine) BeginReplay(c *schemas.Checkpoint, lossy bool) {
	m.replaying, m.lossy, m.restored = true, lossy || c == nil, c
	if c == nil {
		return
	}
	if c.Published != nil {
		m.resumeFrom = *c.Published
	}
	m.logEpoch, m.bases = c.LogEpoch, slices.Clone(c.Bases)
	if len(m.bases) == 0 {
		m.bases = []schemas.EpochBase{{LogEpoch: c.LogEpoch}}
	}
	if n := len(c.Policies); n > 0 {
		m.policies = slices.Clone(c.Policies[:1])
		if lossy {
			m.policies = slices.Clone(c.Policies[n-1:])
		}
		m.setPolicy(m.policies[0].Policy)
		m.policyFrom = m.policies[0].At
	}
	m.clock.given = true
	for _, s := range c.Frozen {
		m.clock.freeze(s.Start, s.End)
	}
	if lossy {
		m.clock.takeStops(c.Stops)
		return
	}
	m.breaker.replay, m.gatewaysFirst, m.replayedFrom, m.history.continues = c.Stops, c.GatewaysFirst, never, c.GatewaysFirst
	m.clock.now = c.ReplayLogTime
	for _, s := range c.Stops {
		if s.StartOffset < c.ReplayOffset {
			m.clock.stopped = s.Start
		}
	}
	if m.clock.now != 0 {
		m.rebase(m.clock.now)
		m.evaluated = m.clock.presence() - m.lateness
		if m.clock.stopped != 0 {
			m.evaluated = m.clock.presence()
		}
		m.wheel.restart(m.evaluated)
	}
}

// catchUpTo evaluates what is due at the moment of the restart: the records that took
// devices away need not be there any more.
func (m *Machine) catchUpTo(latest schemas.Millis) {
	begins := m.clock.now == 0
	if c := m.restored; c != nil && !m.lossy {
		if c.Published.PresumedAt > 1 {
			m.clock.now = max(m.clock.now, c.Published.PresumedAt)
		}
	} else if c != nil {
		m.clock.now = max(m.clock.now, c.LogTime)
	} else if latest > m.clock.now {
		m.clock.advance(latest, m.breakerLimit)
	}
	m.presumedAt = max(m.clock.now, 1) // 1 stands for no instant
	if begins {
		return // no record was there
	}
	m.rebase(m.clock.now)
	m.evaluated = max(m.evaluated, m.clock.presence()-m.lateness)
	m.evaluation = evaluation{x: m.evaluated, at: -never}
	m.out = &Output{}
	m.evaluate()
	m.ordinals.forget()
	m.out = nil
}

// takeStops makes stretches in which the breaker was open those of the clock.
func (c *clock) takeStops(stops []schemas.BreakerStop) {
	for _, s := range stops {
		if s.End == 0 {
			c.stopped = s.Start
		} else {
			c.freeze(s.Start, s.End)
		}
	}
}

// BeginAdopt ends the re-reading: what it found of devices stands, what it
// thought of users is dropped. Every record of the status topic is to be handed
// to Adopt next, in the order of the topic. latest is the latest instant that a
// transition names, where there is no checkpoint.
func (m *Machine) BeginAdopt(latest schemas.Millis) {
	if m.presumes() {
		m.catchUpTo(latest)
	}
	m.adopting = true
	if c := m.restored; c != nil {
		m.rebase(c.LogTime)
	}
	for e := range m.entriesLive() {
		u := m.load(e, &m.scratch)
		m.demote(u)
		m.save(e, u, true)
	}
	clear(m.hidden)
	m.reread = map[schemas.UserID]schemas.Millis{}
}

// presumes tells whether devices are presumed in place of those whose heartbeats were
// lost: in this restart, or in one before it whose statuses are not all written.
func (m *Machine) presumes() bool {
	return m.lossy || m.restored != nil && m.restored.Published != nil && m.restored.Published.PresumedAt != 0
}

// demote makes u an offline, visible user with the devices it has.
func (m *Machine) demote(u *user) {
	u.state, u.kinds, u.hidden = schemas.Offline, 0, false
	u.silentFrom, u.held, u.drained, u.dirty = 0, 0, false, false
	u.lastActive, u.since = 0, 0
	u.flaps = flaps{}
	u.reports = slices.DeleteFunc(u.reports, func(r report) bool { return r.device == 0 })
}

// Adopt takes what was committed of a user; s is nil for a tombstone.
func (m *Machine) Adopt(id schemas.UserID, s *schemas.Status) {
	u := &m.scratch
	e := m.index.find(&m.store, m.index.hash(id), id)
	switch {
	case e != none:
		u = m.load(e, u)
	case s == nil:
		delete(m.hidden, id)
		return
	case m.foreign(id):
		return
	default:
		e = m.enter(id, u)
	}
	m.demote(u)
	// The topic may hold several statuses of a user, the newest last.
	seen, ok := m.reread[id]
	if !ok {
		seen = u.lastSeen
	}
	u.lastSeen = seen
	if s != nil {
		latest := max(s.Since, s.LastSeen, s.LastActive, s.PublishedAt)
		if m.restored == nil && latest > m.latest {
			m.latest = latest
			m.rebase(max(latest, m.clock.now))
		}
		m.adopt(u, s)
	}
	if !ok && u.lastSeen != seen {
		m.reread[id] = seen
	}
	m.save(e, u, true)
}

// adopt makes u what s says.
func (m *Machine) adopt(u *user, s *schemas.Status) {
	u.state, u.kinds, u.hidden = s.State, s.Kinds, s.Visibility == schemas.Nobody
	u.since, u.lastActive, u.lastSeen = s.Since, s.LastActive, max(u.lastSeen, s.LastSeen)
	u.last = s.Device
	u.flaps = flaps{bucket: s.Bucket, publishedAt: s.PublishedAt, leftOut: s.LeftOut}
	if s.Bucket.Lacks == 0 {
		u.flaps.bucket = schemas.Bucket{}
	}
	if p := &s.Pending; p.State != 0 {
		u.flaps.waiting = &waiting{state: s.State, kinds: s.Kinds, hidden: u.hidden, since: s.Since, kindsAt: p.KindsAt,
			visibilityAt: p.VisibilityAt, cause: p.Cause, device: p.Device, kindsDevice: p.KindsDevice, evicted: p.Evicted}
		u.state, u.kinds, u.hidden, u.since = p.State, p.Kinds, p.Visibility == schemas.Nobody, p.Since
	}
	for _, kind := range s.Presumed.Kinds.Append(nil) {
		u.reports = append(u.reports, report{kind: kind, seen: s.Presumed.At, active: s.Presumed.Active})
	}
	if !u.anyHere() {
		u.silentFrom, u.held, u.drained = s.SilentFrom, s.Held, s.Drained
	}
	if u.state == schemas.Offline {
		u.lastSeen = s.LastSeen // nothing that counted came later
	}
	m.resume(u.id, s)
}

// resume notes what a record that was published in part has done to a user already.
func (m *Machine) resume(id schemas.UserID, s *schemas.Status) {
	if m.restored == nil || m.restored.Published == nil {
		return
	}
	if m.resuming == nil {
		m.resuming, m.silences = map[schemas.UserID]int{}, map[schemas.UserID]silence{}
	}
	delete(m.silences, id)
	if s.SilentFrom != 0 {
		m.silences[id] = silence{s.SilentFrom, s.Held, s.Drained, s.Device}
	}
	if s.Version.Record() != m.restored.Published.Version.Record() {
		return
	}
	m.resuming[id] = s.Version.Ordinal() + 1
	if s.State == schemas.Offline && s.Visibility != schemas.Nobody && s.Bucket.Lacks == 0 {
		m.keptBack = append(m.keptBack, id)
	}
}

// StartEpoch begins another log epoch, whose versions count from the offset base; between
// BeginReplay and EndReplay.
func (m *Machine) StartEpoch(logEpoch uint32, base int64) { m.startEpoch(logEpoch, base) }

// EndReplay makes the machine ready for the record at the committed offset. Without a
// checkpoint, its time goes on from the latest instant that was published.
//
// Where heartbeats were lost, a user who is not offline by its status, and of whose
// devices not all kinds were found, is presumed to have been heard on such devices at
// that moment: unknown is not offline. It returns how many those are.
func (m *Machine) EndReplay() (presumed int) {
	c, presumes := m.restored, m.presumes()
	if c == nil && m.latest > m.clock.now {
		m.clock.advance(m.latest, m.breakerLimit)
	}
	if c != nil {
		m.clock.now = max(m.clock.now, c.LogTime)
		m.breaker.stops, m.breaker.disarmed = slices.Clone(c.Stops), c.Disarmed
	}
	m.gatewaysFirst, m.clock.given, m.breaker.replay, m.restored, m.reread, m.adopting = false, false, nil, nil, nil, false
	if m.clock.now == 0 {
		m.replaying, m.lossy, m.presumedAt = false, false, 0
		return 0 // nothing was ever heard, or published
	}
	m.rebase(m.clock.now)
	now := m.clock.presence()
	m.evaluated = max(m.evaluated, now-m.lateness)
	if m.clock.stopped != 0 {
		m.evaluated = now
	}
	m.wheel.restart(m.evaluated)
	for e := range m.entriesLive() {
		u := m.load(e, &m.scratch)
		if u.state == schemas.Offline && !u.hidden && u.flaps.waiting == nil {
			u.refresh()
		}
		if presumes || u.state != schemas.Offline && u.silentFrom == 0 && len(u.reports) == 0 {
			presumed += m.presume(u)
		}
		m.save(e, u, false)
	}
	slices.Sort(m.presumed)
	m.replaying, m.lossy = false, false
	return presumed
}

// presume puts devices in place of those whose heartbeats were lost. It returns how many
// users that is.
func (m *Machine) presume(u *user) int {
	_, resumes := m.resuming[u.id]
	// The record took the user away, and that waits.
	resumes = !m.lossy && (resumes || u.since > m.clock.wall(m.evaluated))
	was := false // presumed before
	u.reports = slices.DeleteFunc(u.reports, func(r report) bool {
		drop := r.device == 0 || u.state == schemas.Offline && !resumes && r.here()
		if drop {
			m.gateways.detach(&r)
		}
		was = was || r.device == 0
		return drop
	})
	if u.state == schemas.Offline || u.silentFrom != 0 {
		return 0
	}
	missing := u.kinds &^ u.presentKinds()
	if missing == 0 && !u.anyHere() {
		missing = missing.With(schemas.Other)
	}
	if missing != 0 || was {
		m.presumed = append(m.presumed, u.id)
	}
	if missing == 0 {
		return 0
	}
	now := m.clock.now
	active := now
	if u.state == schemas.Away {
		active -= schemas.Millis(m.idleAfter)
	}
	for _, kind := range missing.Append(nil) {
		u.reports = append(u.reports, report{kind: kind, seen: now, active: active})
	}
	u.lastSeen = max(u.lastSeen, now)
	return 1
}

// tellPresumed writes the statuses of users of whom something was presumed.
func (m *Machine) tellPresumed() {
	if m.replaying {
		return
	}
	for len(m.presumed) > 0 && !m.outputFull() {
		id := m.presumed[0]
		m.presumed = m.presumed[1:]
		if r := &m.slice.resume; id <= r.User || r.At != 0 {
			continue // written before a restart
		}
		m.slice.upTo = schemas.PublishedUpTo{User: id}
		if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
			m.emitStatus(m.load(e, &m.scratch))
		}
	}
}

// entriesLive yields the entries in use. The body may free the one it is given.
func (m *Machine) entriesLive() func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for e := uint32(0); e < m.store.end(); e++ {
			if m.store.hot(e).user != 0 && !yield(e) {
				return
			}
		}
	}
}

// LogTime is the running maximum of the append times, 0 before the first record.
func (m *Machine) LogTime() schemas.Millis { return m.clock.now }

// LogEpoch is the log epoch of the versions to come.
func (m *Machine) LogEpoch() uint32 { return m.logEpoch }

// Stopped is since when the breaker keeps presence time where it is, 0 when it does not.
func (m *Machine) Stopped() schemas.Millis { return m.clock.stopped }

// Users is how many users are kept in memory: all but the offline ones, and those
// who are hidden.
func (m *Machine) Users() int { return m.store.live + len(m.hidden) }

// Counts are totals since the machine was made.
func (m *Machine) Counts() Counts {
	c := m.counts
	c.BreakerTrips, c.NoPlace = m.breaker.trips, m.gateways.overflow
	return c
}

// Bytes is the memory that the state takes, all structures counted but those of
// gateways.
func (m *Machine) Bytes() int {
	const perMany, perHidden = 320, 48
	return m.index.bytes() + m.store.bytes() + m.wheel.bytes() + m.olds.bytes() + len(m.many)*perMany + len(m.hidden)*perHidden
}

package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Checkpoint is what a restart needs besides the committed offset; see the package's Restart. That
// offset is next, or the offset of the record applied last while Pending. The caller sets TopicID.
func (m *Machine) Checkpoint(next int64) schemas.Checkpoint {
	at, stops, disarmed, bases := m.clock, m.breaker.stops, m.breaker.disarmed, m.bases
	if m.slice.pending {
		at, stops, disarmed, bases = m.slice.before, m.slice.stops, m.slice.disarmed, m.slice.bases
	}
	c := schemas.Checkpoint{LogEpoch: bases[len(bases)-1].LogEpoch, LogTime: at.now, ReplayOffset: next,
		ReplayLogTime: at.now, Bases: slices.Clone(bases), Policies: m.policies[:1:1],
		Stops: slices.Clone(stops), Disarmed: disarmed}
	if n := len(m.policies); n > 1 {
		c.Policies = append(c.Policies, m.policies[n-1])
	}
	if from, ok := m.history.replay(); ok {
		c.ReplayOffset, c.ReplayLogTime, c.RowsFrom = from.offset, from.before, at.wall(m.rowsFrom)
	}
	c.Tenants = m.marks()
	c.NextUnsure = max(0, m.unsure.free-int64(at.presence()-m.lateness)*1000)
	for _, s := range at.frozen {
		if !slices.ContainsFunc(stops, func(b schemas.BreakerStop) bool { return b.Start == s.Start && b.End == s.End }) {
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

// BeginReplay prepares a new machine for re-reading heartbeats with Apply, from the checkpoint's
// replay offset up to the committed one. Nothing is published until EndReplay.
func (m *Machine) BeginReplay(c *schemas.Checkpoint) {
	m.replaying, m.lossy, m.restored, m.rereads = true, c.Published != nil && c.Published.PresumedAt != 0, c, true
	if c.Published != nil {
		m.resumeFrom = *c.Published
	}
	m.takeEpoch(c)
	if len(c.Policies) > 0 {
		m.takePolicy(c.Policies[0])
	}
	m.clock.given = true
	for _, s := range c.Frozen {
		m.clock.freeze(s.Start, s.End)
	}
	m.breaker.replay = c.Stops
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

// BeginLossy prepares a new machine for a restart that cannot re-read everything, and therefore
// re-reads nothing. c is nil if the commit is lost: then pass the records that had been handled to
// Pass.
func (m *Machine) BeginLossy(c *schemas.Checkpoint) {
	m.replaying, m.lossy, m.restored = true, true, c
	if c == nil {
		return
	}
	m.takeEpoch(c)
	if n := len(c.Policies); n > 0 {
		m.takePolicy(c.Policies[n-1])
	}
	for _, s := range c.Frozen {
		m.clock.freeze(s.Start, s.End)
	}
	m.clock.takeStops(c.Stops)
	m.clock.now = c.LogTime
}

func (m *Machine) takeEpoch(c *schemas.Checkpoint) {
	m.logEpoch, m.bases = c.LogEpoch, slices.Clone(c.Bases)
	if len(m.bases) == 0 {
		m.bases = []schemas.EpochBase{{LogEpoch: c.LogEpoch}}
	}
}

func (m *Machine) takePolicy(p schemas.PolicyInForce) {
	m.policies = []schemas.PolicyInForce{p}
	m.setPolicy(p.Policy, p.At)
	m.policyFrom = p.At
}

// Pass applies only the time and the policy of a record that had been handled before the commit was
// lost.
func (m *Machine) Pass(offset int64, appended schemas.Millis, f *schemas.Frame) {
	m.clock.advance(appended, m.breakerLimit)
	if f.Policy != nil && *f.Policy != m.Policy().Policy {
		m.takePolicy(schemas.PolicyInForce{Offset: offset, At: m.nextPolicyFrom(), Policy: *f.Policy})
	}
}

// takeStops applies the stops of the breaker to the clock.
func (c *clock) takeStops(stops []schemas.BreakerStop) {
	for _, s := range stops {
		if s.End == 0 {
			c.stopped = s.Start
		} else {
			c.freeze(s.Start, s.End)
		}
	}
}

// BeginAdopt ends the re-reading: it keeps what was found of devices, and drops the states of
// users. Then pass every record of the status topic to Adopt, in order. latest is the latest
// instant of a transition, if there is no checkpoint.
func (m *Machine) BeginAdopt(latest schemas.Millis) {
	m.adopting, m.latest = true, latest
	if c := m.restored; c != nil {
		latest = c.LogTime
	}
	if latest = max(latest, m.clock.now); latest != 0 {
		m.rebase(latest)
	}
	for e := range m.liveEntries() {
		u := m.load(e, &m.scratch)
		m.demote(u)
		m.save(e, u, true)
	}
	clear(m.hidden)
	clear(m.privacy)
	m.tenants.beginAdopt()
	m.reread = map[schemas.UserID]schemas.Millis{}
}

// demote makes u an offline, visible user with the devices it has.
func (m *Machine) demote(u *user) {
	u.tenant, u.state, u.kinds, u.hidden = 0, schemas.Offline, 0, false
	u.silentFrom, u.releaseDelay, u.drained, u.dirty = 0, 0, false, false
	u.unsureSince, u.awaits, u.unsureEnded = 0, 0, false
	u.lastActive, u.since = 0, 0
	u.flaps = flaps{}
	u.reports = slices.DeleteFunc(u.reports, func(r report) bool { return r.device == 0 })
}

// Adopt applies a committed status of a user; s is nil for a tombstone, and left then is when the user left, 0 if
// that is not known.
func (m *Machine) Adopt(id schemas.UserID, s *schemas.Status, left schemas.Millis) {
	delete(m.delayed, id)
	delete(m.privacy, id)
	delete(m.tenants.away, id)
	delete(m.tenants.named, id)
	delete(m.tenants.lapsed, id)
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
	// The topic may have several statuses of a user, the newest last.
	seen, ok := m.reread[id]
	if !ok {
		seen = u.lastSeen
	}
	u.lastSeen = seen
	if m.restored == nil {
		latest := max(left, m.latest, m.clock.now)
		if s != nil {
			latest = max(latest, s.Since, s.LastSeen, s.LastActive, s.PublishedAt)
		}
		m.rebase(latest)
	}
	if u.since = left; s != nil {
		m.adopt(u, s)
	}
	if !ok && u.lastSeen != seen {
		m.reread[id] = seen
	}
	m.save(e, u, true)
}

// adopt applies s to u.
func (m *Machine) adopt(u *user, s *schemas.Status) {
	m.adoptTenant(u, s)
	u.state, u.kinds, u.hidden = s.State, s.Kinds, s.Visibility == schemas.Nobody
	u.since, u.lastActive, u.lastSeen = s.Since, s.LastActive, max(u.lastSeen, s.LastSeen)
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
	for _, kind := range s.Presumed.Kinds.Append(nil) {
		u.reports = append(u.reports, report{kind: kind, seen: s.Presumed.At, active: s.Presumed.Active})
	}
	if !u.present() {
		u.silentFrom, u.releaseDelay, u.drained = s.SilentFrom, s.Held, s.Drained
	}
	if u.state == schemas.Offline {
		u.lastSeen = s.LastSeen // no later report counted
	}
	m.resume(u, s)
}

// resume stores what a partly published record has already done to a user.
func (m *Machine) resume(u *user, s *schemas.Status) {
	id := u.id
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
	// Of an offline, visible user with a full bucket only that record leaves a status: see cut. Without
	// a transition of the user the status has the version of the record before.
	if s.State == schemas.Offline && s.Visibility != schemas.Nobody && s.Bucket.Lacks == 0 && u.tenant == 0 {
		if m.delayed == nil {
			m.delayed = map[schemas.UserID]bool{}
		}
		m.delayed[id] = true
	}
	if s.Version.Record() == m.restored.Published.Version.Record() {
		m.resuming[id] = s.Version.Ordinal() + 1
	}
}

// StartEpoch begins another log epoch, whose versions count from the offset base. Call it between
// BeginReplay or BeginLossy and EndReplay.
func (m *Machine) StartEpoch(logEpoch uint32, base int64) { m.startEpoch(logEpoch, base) }

// EndReplay prepares the machine for the record at the committed offset. Without a checkpoint, time
// continues from the latest published instant.
//
// If heartbeats were lost, users who are present by their status are presumed to have been heard at
// that moment: unknown is not offline. It returns the number of these users.
func (m *Machine) EndReplay() (presumed int) {
	c, lossy := m.restored, m.lossy
	if c == nil {
		if latest := m.latestInstant(); latest > m.clock.now {
			m.clock.advance(latest, m.breakerLimit)
		}
	} else {
		m.clock.now = max(m.clock.now, c.LogTime)
		m.breaker.stops, m.breaker.disarmed = slices.Clone(c.Stops), c.Disarmed
	}
	if lossy {
		m.breaker.stops = onlyOpen(m.breaker.stops)
	}
	// After a partly published record, statuses are ahead of the reports.
	complete := c == nil || c.Published == nil
	if c != nil && !lossy {
		m.rowsFrom = max(m.rowsFrom, m.clock.at(c.RowsFrom))
	}
	m.clock.given, m.breaker.replay, m.restored, m.reread, m.adopting = false, nil, nil, nil, false
	m.replaying, m.lossy, m.rereads = false, false, false
	m.tenants.endReplay()
	for id, k := range m.privacy {
		m.setPrivacy(id, k)
	}
	if m.clock.now == 0 {
		return 0 // nothing was ever heard, or published
	}
	m.rebase(m.clock.now)
	now := m.clock.presence()
	m.evaluated = max(m.evaluated, now-m.lateness)
	if m.clock.stopped != 0 {
		m.evaluated = now
	}
	m.wheel.restart(m.evaluated)
	if c != nil && c.NextUnsure != 0 && !lossy {
		m.unsure.free = int64(now-m.lateness)*1000 + c.NextUnsure
	}
	for e := range m.liveEntries() {
		u := m.load(e, &m.scratch)
		if complete && u.state == schemas.Offline {
			m.endAll(u)
		}
		if u.state == schemas.Offline && !u.hidden && u.flaps.waiting == nil {
			u.refresh()
		}
		// Some statuses already have what this restart presumes, because an earlier restart wrote
		// them.
		written := m.resumeFrom.At != 0 || u.id <= m.resumeFrom.User
		if lossy && !written || u.state != schemas.Offline && u.silentFrom == 0 && len(u.reports) == 0 {
			presumed += m.presume(u)
		}
		m.save(e, u, false)
	}
	slices.Sort(m.presumed)
	if lossy {
		m.presumedAt = m.clock.now
	}
	return presumed
}

// endAll ends the reports of a user who is offline by its status. Such reports remain if an older
// version of the program processed the records, in which a bye through any gateway ended the
// device.
func (m *Machine) endAll(u *user) {
	for i := len(u.reports) - 1; i >= 0; i-- {
		if u.reports[i].live() {
			m.drop(u, i)
		}
	}
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

// onlyOpen returns the stop that has not ended. It began before all records that later restarts
// re-read.
func onlyOpen(stops []schemas.BreakerStop) []schemas.BreakerStop {
	stops = slices.DeleteFunc(stops, func(s schemas.BreakerStop) bool { return s.End != 0 })
	for i := range stops {
		stops[i].StartOffset = -1
	}
	return stops
}

// presume gives devices to a user who is present: of the kinds in its status, heard now. It returns
// the number of users that it changed, 0 or 1.
func (m *Machine) presume(u *user) int {
	u.reports = u.reports[:0] // those of an earlier restart
	if u.state == schemas.Offline || u.silentFrom != 0 {
		return 0
	}
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
	return 1
}

// writePresumed writes the statuses of users with presumed devices.
func (m *Machine) writePresumed() {
	if m.replaying {
		return
	}
	for len(m.presumed) > 0 && !m.outputFull() {
		id := m.presumed[0]
		m.presumed = m.presumed[1:]
		m.slice.upTo = schemas.PublishedUpTo{User: id}
		if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
			m.emitStatus(m.load(e, &m.scratch))
		}
	}
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

// LogTime is the running maximum of the append times, 0 before the first record.
func (m *Machine) LogTime() schemas.Millis { return m.clock.now }

// LogEpoch is the log epoch of the versions to come.
func (m *Machine) LogEpoch() uint32 { return m.logEpoch }

// Stopped is since when the breaker stops presence time; 0: it does not.
func (m *Machine) Stopped() schemas.Millis { return m.clock.stopped }

// Users is how many users are in memory: those who are not offline, have a bye or a bucket, or are
// hidden.
func (m *Machine) Users() int { return m.store.live + len(m.hidden) }

// Counts are totals since the machine was made.
func (m *Machine) Counts() Counts {
	c := m.counts
	c.BreakerTrips, c.NoPlace = m.breaker.trips, m.gateways.overflow
	return c
}

// Bytes is the memory of the state, except that of gateways.
func (m *Machine) Bytes() int {
	const perMany, perHidden, perPrivacy = 320, 48, 72
	return m.index.bytes() + m.store.bytes() + m.wheel.bytes() + m.olds.bytes() + len(m.many)*perMany +
		len(m.hidden)*perHidden + len(m.privacy)*perPrivacy
}

package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Checkpoint is what must be kept with the committed offset, which is next, to
// come back to this state: see the package's Restart. TopicID is left to the
// caller.
func (m *Machine) Checkpoint(next int64) schemas.Checkpoint {
	c := schemas.Checkpoint{LogEpoch: m.logEpoch, LogTime: m.clock.now, Frozen: slices.Clone(m.clock.frozen), ReplayOffset: next, ReplayLogTime: m.clock.now}
	if offset, before, ok := m.history.replay(); ok {
		c.ReplayOffset, c.ReplayLogTime = offset, before
	}
	return c
}

// BeginReplay makes a new machine ready to re-read heartbeats from the
// checkpoint's replay offset up to the committed one with Apply, which publishes
// nothing until EndReplay.
func (m *Machine) BeginReplay(c *schemas.Checkpoint) {
	m.replaying = true
	m.clock.now = c.ReplayLogTime
	for _, s := range c.Frozen {
		if s.End <= c.ReplayLogTime {
			m.clock.frozen = append(m.clock.frozen, s)
			m.clock.total += s.End - s.Start
		}
	}
}

// BeginAdopt ends the re-reading: what it found of devices stands, what it
// thought of users is put aside. Every record of the status topic is to be handed
// to Adopt next, in the order of the topic.
func (m *Machine) BeginAdopt() {
	u := &m.scratch
	for e := range m.entriesLive() {
		m.load(e, u)
		m.demote(u)
		m.save(e, u, true)
	}
	clear(m.hidden)
}

// demote makes u an offline, visible user with the devices it has.
func (m *Machine) demote(u *user) {
	u.state, u.kinds, u.hidden = schemas.Offline, 0, false
	u.silentFrom, u.held, u.dirty = 0, 0, false
	u.lastActive, u.since = 0, 0
}

// Adopt takes what was committed of a user; s is nil for a tombstone.
func (m *Machine) Adopt(id schemas.UserID, s *schemas.Status) {
	u := &m.scratch
	e := m.index.find(&m.store, hash(id), id)
	switch {
	case e != none:
		m.load(e, u)
		if s == nil || s.Visibility != schemas.Nobody {
			u.hidden = false
		}
	case s == nil:
		delete(m.hidden, id)
		return
	case m.foreign(id):
		return
	default:
		e = m.enter(id, u)
	}
	m.demote(u)
	if s != nil {
		u.state, u.kinds, u.hidden = s.State, s.Kinds, s.Visibility == schemas.Nobody
		u.since, u.lastActive, u.lastSeen = s.Since, s.LastActive, max(u.lastSeen, s.LastSeen)
		u.last = s.Device
		if !u.anyHere() {
			u.silentFrom, u.held = s.SilentFrom, s.Held
		}
	}
	m.save(e, u, true)
}

// StartEpoch sets the log epoch of the versions to come; between BeginReplay and
// EndReplay.
func (m *Machine) StartEpoch(logEpoch uint32) { m.logEpoch = logEpoch }

// EndReplay makes the machine ready for the record at the committed offset. A
// user who is not offline by its status, but of whose devices nothing was found
// (retention has overtaken a stopped detector), is taken to have been heard at the
// last moment before: unknown is not offline. It returns how many those are.
func (m *Machine) EndReplay(c *schemas.Checkpoint) (unknown int) {
	if c != nil && c.LogTime > m.clock.now {
		m.clock.advance(c.LogTime)
	}
	// Timers that were set before now was known would be dropped or never fire.
	m.wheel.restart(m.clock.presence())
	u := &m.scratch
	for e := range m.entriesLive() {
		m.load(e, u)
		if u.state == schemas.Offline && !u.hidden {
			u.refresh()
			m.save(e, u, false)
			continue
		}
		if u.state == schemas.Offline || u.silentFrom != 0 || len(u.devices) > 0 {
			m.save(e, u, false)
			continue
		}
		unknown++
		id := u.last
		if id == 0 {
			id = 1
		}
		d := device{id: id, kind: schemas.Other, seen: m.clock.now, active: m.clock.now}
		for _, kind := range u.kinds.Append(nil) {
			d.kind = kind
		}
		if u.state == schemas.Away && m.idleAfter > 0 {
			d.active = m.clock.now - schemas.Millis(m.idleAfter)
		}
		u.devices = append(u.devices, d)
		u.lastSeen = max(u.lastSeen, d.seen)
		m.save(e, u, false)
	}
	m.replaying = false
	return unknown
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

// Users is how many users are kept in memory: all but the offline ones, and those
// who hide.
func (m *Machine) Users() int { return m.store.live + len(m.hidden) }

// Counts are totals since the machine was made.
func (m *Machine) Counts() Counts { return m.counts }

// Bytes is the memory that the state takes, all structures counted but those of
// gateways.
func (m *Machine) Bytes() int {
	const perMany, perHidden = 256, 48
	return m.index.bytes() + m.store.bytes() + m.wheel.bytes() + len(m.many)*perMany + len(m.hidden)*perHidden
}

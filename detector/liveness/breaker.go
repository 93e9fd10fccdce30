package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The breaker stops presence time when so many gateways fall silent at once that the cause must be
// the gateways and not their users; see ../DESIGN.md.

const (
	// breakerGateways and breakerDevices are how many gateways, with how many present devices, must have
	// been lost before the breaker compares shares.
	breakerGateways = 3
	breakerDevices  = 100
	// maxStops bounds the stops in a checkpoint. Records that a restart re-reads from an older one are
	// evaluated earlier by the allowed lateness.
	maxStops = 4
)

// breaker is the state of the breaker, besides clock.stopped.
type breaker struct {
	disarmed bool                  // until the gateways have recovered
	stops    []schemas.BreakerStop // since the offset from which a restart re-reads
	trips    uint64

	replay []schemas.BreakerStop // those of the checkpoint during a restart
}

// tripBreaker stops presence time at the instant p, at which gateways have fallen silent, if they
// had too many devices. Then nothing later is due.
func (m *Machine) tripBreaker(p presence) {
	if m.replaying {
		return // the checkpoint has the stops: see replayStop
	}
	g := &m.gateways
	if m.breakerPercent == 0 || m.breaker.disarmed || m.clock.stopped != 0 || len(g.mute) < breakerGateways ||
		g.silenced < breakerDevices || int64(g.silenced)*100 <= m.breakerPercent*int64(g.present) {
		return
	}
	m.breaker.trips++
	m.stopTime(p, m.clock.wall(p))
	m.breaker.stops = append(m.breaker.stops, schemas.BreakerStop{Start: m.clock.stopped, StartOffset: m.offset})
}

// stopTime stops presence time at p, the presence instant of start.
func (m *Machine) stopTime(p presence, start schemas.Millis) {
	m.clock.stop(start)
	m.evaluation.x, m.evaluated = p, p
	// What was reported or came into force since start now counts as of p: limits are earlier than their timers.
	for e := range m.liveEntries() {
		u := m.load(e, &m.scratch)
		if u.lastSeen > start || u.flaps.bucket.At > start || u.since > start || m.floor(u) > start {
			m.arm(e, u, true)
		}
	}
}

// replayStop is the stop that began at the record being re-read, if one did.
func (m *Machine) replayStop() (schemas.BreakerStop, bool) {
	for _, s := range m.breaker.replay {
		if s.StartOffset == m.offset {
			return s, true
		}
	}
	return schemas.BreakerStop{}, false
}

// replayResume ends the stop that ended at the record being re-read, if one did: before its limits
// are evaluated if the stop had reached its limit (byLimit), and after them if the gateways had
// recovered.
func (m *Machine) replayResume(byLimit bool) {
	for _, s := range m.breaker.replay {
		if s.End != 0 && s.EndOffset == m.offset && m.clock.stopped == s.Start &&
			byLimit == (s.End == s.Start+m.breakerLimit) {
			m.clock.resume(s.End)
		}
	}
}

// recovered reports whether the share of lost devices is less than half of that which trips the
// breaker.
func (m *Machine) recovered() bool {
	g := &m.gateways
	return g.silenced == 0 || m.breakerPercent == 0 || int64(g.silenced)*200 < m.breakerPercent*int64(g.present)
}

// updateBreaker resumes presence time after a record at which the gateways have recovered.
func (m *Machine) updateBreaker() {
	if m.replaying || m.clock.stopped == 0 && !m.breaker.disarmed || !m.recovered() {
		return
	}
	m.breaker.disarmed = false
	if m.clock.stopped != 0 {
		m.resumeTime(m.clock.now)
	}
}

// resumeTime ends a stop at the log time end.
func (m *Machine) resumeTime(end schemas.Millis) {
	if m.clock.stopped != 0 {
		m.clock.resume(end)
	}
	m.breaker.stops = slices.Clone(m.breaker.stops) // a checkpoint may refer to the old ones
	if n := len(m.breaker.stops); n > 0 {
		last := &m.breaker.stops[n-1]
		last.End, last.EndOffset = end, m.offset
	}
}

// forgetStops drops the stops that ended before the offset from which a restart would re-read.
func (m *Machine) forgetStops() {
	b := &m.breaker
	if len(b.stops) == 0 {
		return
	}
	from, _ := m.history.replay()
	for len(b.stops) > 0 && b.stops[0].End != 0 && (b.stops[0].EndOffset < from.offset || len(b.stops) > maxStops) {
		b.stops = b.stops[1:]
	}
}

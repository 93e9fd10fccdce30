package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The breaker keeps presence time where it is when so many gateways fall silent at once
// that they, rather than their users, must be in trouble; see ../DESIGN.md.

const (
	// breakerLives and breakerDevices are how many lives, with how many present devices,
	// must have been lost before the breaker looks at the share.
	breakerLives   = 3
	breakerDevices = 100
	// maxStops bounds the stretches that a checkpoint tells of.
	maxStops = 8
)

// breaker is the memory of it, beside clock.stopped.
type breaker struct {
	disarmed bool                  // until the gateways have recovered
	stops    []schemas.BreakerStop // since the offset from which a restart re-reads
	trips    uint64

	replay []schemas.BreakerStop // what a restart is told of
}

// tripBreaker stops presence time at the instant p, at which gateways have fallen
// silent, if they took too many devices along. Nothing later is due then.
func (m *Machine) tripBreaker(p presence) {
	if m.replaying {
		return // what happened is told by the checkpoint: see replayStop
	}
	g := &m.gateways
	if m.breakerPercent == 0 || m.breaker.disarmed || m.clock.stopped != 0 || g.mute < breakerLives || g.silenced < breakerDevices ||
		int64(g.silenced)*100 <= m.breakerPercent*int64(g.present) {
		return
	}
	m.breaker.trips++
	m.stopTime(p, m.clock.wall(p))
	m.breaker.stops = append(m.breaker.stops, schemas.BreakerStop{Start: m.clock.stopped, StartOffset: m.offset})
}

// stopTime makes presence time stand still at p, the presence instant of start.
func (m *Machine) stopTime(p presence, start schemas.Millis) {
	m.clock.stop(start)
	m.evaluation.x, m.evaluated = p, p
	// What came in since start has come to count as heard at p: its limits are earlier
	// than its timers.
	for e := range m.entriesLive() {
		u := m.load(e, &m.scratch)
		if u.lastSeen > start || u.flaps.bucket.At > start || u.since > start {
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

// replayGoOn ends the stop that ended at the record being re-read, if one did: before its
// limits are evaluated where it was over by itself, and after them where the gateways had
// recovered.
func (m *Machine) replayGoOn(byItself bool) {
	for _, s := range m.breaker.replay {
		if s.End != 0 && s.EndOffset == m.offset && m.clock.stopped == s.Start && byItself == (s.End == s.Start+m.breakerLimit) {
			m.clock.resume(s.End)
		}
	}
}

// recovered tells whether the share of lost devices has fallen to less than half of
// what trips the breaker.
func (m *Machine) recovered() bool {
	g := &m.gateways
	return g.silenced == 0 || m.breakerPercent == 0 || int64(g.silenced)*200 < m.breakerPercent*int64(g.present)
}

// tendBreaker lets presence time go on after a record by which the gateways recovered.
func (m *Machine) tendBreaker() {
	if m.replaying || m.clock.stopped == 0 && !m.breaker.disarmed || !m.recovered() {
		return
	}
	m.breaker.disarmed = false
	if m.clock.stopped != 0 {
		m.goOn(m.clock.now)
	}
}

// goOn ends a stop at the log time end.
func (m *Machine) goOn(end schemas.Millis) {
	if m.clock.stopped != 0 {
		m.clock.resume(end)
	}
	m.breaker.stops = slices.Clone(m.breaker.stops) // a checkpoint may look at what was
	if n := len(m.breaker.stops); n > 0 {
		last := &m.breaker.stops[n-1]
		last.End, last.EndOffset = end, m.offset
	}
}

// forgetStops drops the stretches that ended before the offset from which a restart
// would re-read.
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

package liveness

import "github.com/stillhere/stillhere/schemas"

// The breaker stops presence time when so many gateways fall silent at once that the cause must be
// the gateways and not their users; see ../DESIGN.md.

const (
	// breakerGateways and breakerDevices are how many gateways, with how many present devices, must have
	// been lost before the breaker compares shares.
	breakerGateways = 3
	breakerDevices  = 100
)

// breaker is the state of the breaker, besides clock.stopped.
type breaker struct {
	disarmed bool // until the gateways have recovered
	trips    uint64
}

// tripBreaker stops presence time at the instant p, at which gateways have fallen silent, if they
// had too many devices. Then nothing later is due.
func (m *Machine) tripBreaker(p presence) {
	g := &m.gateways
	if m.breakerPercent == 0 || m.breaker.disarmed || m.clock.stopped != 0 || len(g.mute) < breakerGateways ||
		g.silenced < breakerDevices || int64(g.silenced)*100 <= m.breakerPercent*int64(g.present) {
		return
	}
	m.breaker.trips++
	m.stopTime(p, m.clock.wall(p))
}

// stopTime stops presence time at p, the presence instant of start.
func (m *Machine) stopTime(p presence, start schemas.Millis) {
	m.clock.stop(start)
	m.evaluation.x, m.evaluated = p, p
	m.rearmAll() // what was reported or came into force since start now counts as of p
}

// rearmAll sets the timers of all users, and that of the next plan, after a change that may have brought their limits
// nearer.
func (m *Machine) rearmAll() {
	m.gateways.nextPlan = 0
	for e := range m.liveEntries() {
		m.arm(e, m.load(e, &m.scratch), true)
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
	if m.clock.stopped == 0 && !m.breaker.disarmed || !m.recovered() {
		return
	}
	m.breaker.disarmed = false
	if m.clock.stopped != 0 {
		m.clock.resume(m.clock.now)
		m.rearmOverrides()
	}
}

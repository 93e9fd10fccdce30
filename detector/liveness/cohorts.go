package liveness

import (
	"math/bits"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The *cohort* of a lost gateway are the devices that were present through it. They have the reconnect window to
// connect elsewhere. Those that do not leave one after the other, each at an instant of its own that a hash of the
// device chooses; see ../DESIGN.md.

// leavesAt is when a device leaves if it is not heard again: when it falls silent or, in the cohort of a gateway that
// was lost before, at an instant of its own after the reconnect window. A look ahead makes no device leave a cohort.
func (m *Machine) leavesAt(u *user, r *report) presence {
	until := m.presentUntil(r)
	if until == never || !m.gateways.lost(&m.clock, r.life, until) {
		return until
	}
	l := &m.gateways.lives[r.life]
	switch {
	case m.ahead:
		return never
	case l.end == ongoing: // until then it may be heard
		return until
	}
	until += m.reconnectWindow + l.wait + share(u.id, r.device, l.spread)
	if due := m.gateways.dueAt(&m.clock, l, m.reconnectWindow); l.planned == 0 && l.closedAt != 0 {
		if at := m.gateways.putOff(&m.clock, due); at > due {
			return max(until, at)
		}
	}
	return max(until, l.planned)
}

// plannedAt is when the devices of the next lost life get their times to leave: when its reconnect window is over and
// no row comes through it any more. Lives, the policy and a stop of presence time change it.
func (g *gateways) plannedAt(c *clock, window presence) presence {
	if g.nextPlan == 0 {
		g.nextPlan = never
		for _, n := range g.unplanned {
			g.nextPlan = min(g.nextPlan, g.planOf(c, n, window))
		}
	}
	return g.nextPlan
}

// planOf is when the devices of one lost life get their times to leave, or got them.
func (g *gateways) planOf(c *clock, number uint16, window presence) presence {
	l := &g.lives[number]
	if l.planned != 0 {
		return l.planned
	}
	return g.putOff(c, g.dueAt(c, l, window))
}

// dueAt is when a plan is made for l where the partition has an owner.
func (g *gateways) dueAt(c *clock, l *life, window presence) presence {
	return max(l.overAt(c, window), c.at(g.from))
}

// leaseGrace is how long an owner that keeps up again has to say which gateways are heard.
const leaseGrace presence = 15_000

// maxPutOff bounds how long a plan is put off, so that nobody is online for ever. Heartbeats are kept as long: after a
// longer absence of the owner the restart is lossy.
const maxPutOff presence = 15 * 60_000

// missTicks notes at a record whether the newest tick of an owner that keeps up is too long ago. The first record
// counts as one.
func (g *gateways) missTicks(c *clock) {
	if g.ticked == 0 {
		g.ticked = c.now
	}
	unowned := c.now-g.ticked > maxStep && c.presence()-c.at(g.ticked) > maxStep
	if unowned != g.unowned {
		g.unowned, g.nextPlan, g.unheard = unowned, 0, -never
	}
}

// tick notes a tick of an owner that keeps up.
func (g *gateways) tick(c *clock) {
	if g.ticked = c.now; g.unowned {
		g.ownedFrom = c.now
	}
}

// putOff is when a plan is made that is due at p: not while nobody can say by leases who is heard, but at last.
func (g *gateways) putOff(c *clock, p presence) presence {
	at := p
	if g.ownedFrom != 0 {
		at = max(p, c.at(g.ownedFrom)+leaseGrace)
	}
	if g.unowned && at > c.at(g.ticked)+maxStep {
		at = never
	}
	return min(at, p+maxPutOff)
}

// waited is how long devices of lost lives have waited for a plan.
func (g *gateways) waited(c *clock) (longest presence) {
	for _, n := range g.unplanned {
		longest = max(longest, c.presence()-c.at(g.lives[n].lostAt))
	}
	return longest
}

func (l *life) overAt(c *clock, window presence) presence {
	return max(c.at(l.lostAt)+window, c.at(l.closedAt))
}

// plan gives the devices that are still present through the lost lives that are due at p times to leave, one in step
// microseconds on average, and none before those of earlier plans.
func (g *gateways) plan(c *clock, p, window presence, step int64) {
	g.nextPlan = 0
	g.unplanned = slices.DeleteFunc(g.unplanned, func(n uint16) bool {
		if g.planOf(c, n, window) > p {
			return false
		}
		l := &g.lives[n]
		over := l.overAt(c, window)
		begins := max(int64(p)*1000, g.freeAt)
		l.planned = p
		l.wait, l.spread = presence((begins+999)/1000)-over, int64(l.present)*step
		g.freeAt = begins + l.spread
		g.held, g.heldUntil = max(g.held, l.wait+presence(l.spread/1000)), max(g.heldUntil, presence(g.freeAt/1000))
		return true
	})
}

// share is the part of a time in microseconds after which a device leaves, by SplitMix64 (Steele et al. 2014).
func share(user schemas.UserID, device schemas.DeviceID, spread int64) presence {
	h := uint64(user) + uint64(device)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	part, _ := bits.Mul64(h^h>>31, uint64(spread))
	return presence(part / 1000)
}

package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// movesPerTick bounds how many entries a tick moves to return memory.
const movesPerTick = 4096

// upkeep runs at ticks: it forgets what no longer matters and returns memory.
func (m *Machine) upkeep() {
	m.gateways.sweep()
	m.gateways.expire(&m.clock)
	m.out.Gateways = append(m.out.Gateways, m.gateways.ends...)
	m.gateways.ends = m.gateways.ends[:0]
	m.forgetPrivacy()
	m.forgetNamings()
	m.wheel.trim()
	if len(m.clock.frozen) > 0 {
		const margin = 15 * 60 * 1000 // milliseconds
		reach := m.longestAway + m.reach + m.foresight + m.flapBurst + 2*m.flapInterval + margin
		if m.gateways.heldUntil < m.clock.presence()-reach {
			m.gateways.held = 0
		}
		if m.clock.forget(m.clock.presence() - reach - m.gateways.held - m.gateways.waited(&m.clock)) {
			m.rearmAll()
		}
	}
	m.store.trim()
	for i := 0; i < movesPerTick && m.capture == nil && m.store.sparse(); i++ {
		m.compact()
		m.store.trim()
	}
}

// compact moves one entry from the last chunk into a hole before it. It continues where it stopped,
// and starts again at the chunk's first entry once it reaches the end.
func (m *Machine) compact() {
	c := len(m.store.chunks) - 1
	if m.draining != c {
		m.draining, m.drained = c, 0
	}
	for ; m.drained < chunkEntries; m.drained++ {
		from := uint32(c*chunkEntries + m.drained)
		if m.store.hot(from).user == 0 {
			continue
		}
		if to, ok := m.store.hole(); ok {
			m.moveEntry(from, to)
		}
		return
	}
	m.drained = 0
}

// moveEntry moves a user to the free entry to. Its old timer will find a free entry.
func (m *Machine) moveEntry(from, to uint32) {
	h := *m.store.hot(from)
	if h.flags&flagTenant != 0 {
		m.store.setTenant(to, m.store.tenant(from))
	}
	m.store.setConnection(to, m.store.connection(from))
	m.index.move(m.index.hash(h.user), from, to)
	*m.store.hot(to), *m.store.cold(to) = h, *m.store.cold(from)
	m.store.used[to/chunkEntries]++
	m.store.live++
	m.store.remove(from)
	if at, counts := m.armedAt(to); counts {
		m.wheel.add(at, to)
	}
}

// expire drops gateways without epochs of which no frame counts any more.
func (g *gateways) expire(c *clock) {
	g.idle = slices.DeleteFunc(g.idle, func(known *gateway) bool {
		if known.idle = len(known.epochs) == 0; known.idle && known.own.over(c) && known.others.over(c) {
			delete(g.known, known.id)
			return true
		}
		return !known.idle
	})
}

// sweepAtOnce bounds how many lives a tick checks.
const sweepAtOnce = 64

// sweep frees the lives that have ended and that no report names.
func (g *gateways) sweep() {
	for range min(sweepAtOnce, len(g.lives)-firstLife) {
		if g.swept++; g.swept >= len(g.lives) {
			g.swept = firstLife
		}
		l := &g.lives[g.swept]
		if !l.used || l.closedAt == 0 && !l.endless() || l.reports > 0 || slices.Contains(g.unplanned, uint16(g.swept)) {
			continue
		}
		if l.endless() {
			delete(g.standIns, standIn{l.id, l.epoch, l.end})
		} else if l.returned+l.released > 0 {
			g.ends = append(g.ends, GatewayEnd{Gateway: schemas.GatewayID(l.id), Epoch: l.epoch, HeardAt: l.heard,
				Drained: l.end == drained, Returned: l.returned, Released: l.released})
		}
		*l = life{}
		g.free = append(g.free, uint16(g.swept))
	}
}

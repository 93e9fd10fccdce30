package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// gateways is what a partition knows of gateways: those heard of late, and the
// lives through which devices were heard.
type gateways struct {
	known map[string][]gateway // by id: the epochs that are remembered
	lives []life               // 0 stands for no gateway, bornLost for one that is lost as it speaks
	free  []uint16
	ends  []GatewayEnd // to be told

	silence presence // how long a gateway may be silent
	memory  presence // how long after its last frame a life can still matter
}

// gateway is one epoch of a gateway, as its last frame left it.
type gateway struct {
	epoch    schemas.Millis
	heard    schemas.Millis // log time
	sequence uint64
	life     uint16 // that goes on; 0 when it has ended
}

// life is a stretch in which a gateway was not lost. Devices remember the number
// of the one they were last heard through.
type life struct {
	id       string
	epoch    schemas.Millis
	heard    schemas.Millis // log time of its last frame
	lostAt   presence       // never while it goes on, or is merely silent
	used     bool
	waiting  int // devices in the queue
	returned int // devices of its cohort that were heard again
	released int // devices of its cohort that were let go
}

const (
	bornLost = 1
	// maxLives bounds the table: its numbers have 16 bits. Beats through a gateway
	// that finds no place count as coming through none.
	maxLives = 1 << 16
)

// GatewayEnd sums up what became of the devices of a lost gateway.
type GatewayEnd struct {
	Gateway  schemas.GatewayID
	Epoch    schemas.Millis // when that gateway process had started
	HeardAt  schemas.Millis // its last frame
	Returned int            // devices that were heard again in time
	Released int            // devices that were let go
}

func newGateways(silence, memory presence) gateways {
	return gateways{known: map[string][]gateway{}, lives: make([]life, bornLost+1), silence: silence, memory: memory}
}

// hear notes a frame at the evaluation clock x. It returns the life its beats
// come through; fresh is false for a duplicate frame, which does not count.
// missing is how many frames the sequence lacks before this one.
func (g *gateways) hear(c *clock, f *schemas.Frame, x presence) (number uint16, missing uint64, fresh bool) {
	if len(f.Gateway) == 0 {
		return 0, 0, true
	}
	epochs := g.remembered(c, g.known[string(f.Gateway)], x)
	i, outlived := -1, false
	for j := range epochs {
		switch {
		case epochs[j].epoch == f.GatewayEpoch:
			i = j
		case epochs[j].epoch > f.GatewayEpoch:
			outlived = true
		}
	}
	if i < 0 {
		i = len(epochs)
		epochs = append(epochs, gateway{epoch: f.GatewayEpoch})
		g.known[string(f.Gateway)] = epochs
	} else if f.Sequence != 0 && epochs[i].sequence != 0 {
		if f.Sequence <= epochs[i].sequence {
			return 0, 0, false
		}
		missing = f.Sequence - epochs[i].sequence - 1
	}
	for j := range epochs {
		if epochs[j].epoch < f.GatewayEpoch {
			g.lose(c, &epochs[j])
		}
	}
	own := &epochs[i]
	own.heard, own.sequence = c.now, f.Sequence
	if own.life != 0 {
		g.lives[own.life].heard = c.now
	}
	if f.Draining {
		g.lose(c, own)
	}
	if f.Draining || outlived {
		return bornLost, missing, true
	}
	if own.life == 0 {
		own.life = g.begin(string(f.Gateway), f.GatewayEpoch, c.now)
	}
	return own.life, missing, true
}

// remembered drops the epochs whose silence has been noticed at x.
func (g *gateways) remembered(c *clock, epochs []gateway, x presence) []gateway {
	return slices.DeleteFunc(epochs, func(e gateway) bool { return c.at(e.heard)+g.silence <= x })
}

// begin starts a life; 0 when there is no place for it.
func (g *gateways) begin(id string, epoch, now schemas.Millis) uint16 {
	var number uint16
	switch n := len(g.free); {
	case n > 0:
		number, g.free = g.free[n-1], g.free[:n-1]
	case len(g.lives) < maxLives:
		number = uint16(len(g.lives))
		g.lives = append(g.lives, life{})
	default:
		return 0
	}
	g.lives[number] = life{id: id, epoch: epoch, heard: now, lostAt: never, used: true}
	return number
}

// lose ends the life of e now, or when its silence had become too long before.
func (g *gateways) lose(c *clock, e *gateway) {
	if e.life != 0 {
		l := &g.lives[e.life]
		l.lostAt = min(c.presence(), c.at(l.heard)+g.silence)
		e.life = 0
	}
}

// lost tells whether the life was over at the presence instant p, which has been
// reached.
func (g *gateways) lost(c *clock, number uint16, p presence) bool {
	switch number {
	case 0:
		return false
	case bornLost:
		return true
	}
	l := &g.lives[number]
	return min(l.lostAt, c.at(l.heard)+g.silence) <= p
}

// returned counts a device that is heard again, now through another life, when it
// belongs to the cohort of a lost one.
func (g *gateways) returned(c *clock, d *device, now uint16) {
	l := &g.lives[d.gateway]
	if d.phase == queued {
		l.waiting--
	}
	if d.phase != present || d.gateway != now && g.lost(c, d.gateway, c.presence()) {
		l.returned++
	}
}

// queued counts a device of the life's cohort that waits to be let go.
func (g *gateways) queued(number uint16) { g.lives[number].waiting++ }

// released counts a device of the life's cohort that was let go.
func (g *gateways) released(number uint16) {
	g.lives[number].waiting--
	g.lives[number].released++
}

// sweep forgets gateways, and frees the lives that no device can belong to.
func (g *gateways) sweep(c *clock, x presence) {
	for id, epochs := range g.known {
		if epochs = g.remembered(c, epochs, x); len(epochs) == 0 {
			delete(g.known, id)
		} else {
			g.known[id] = epochs
		}
	}
	for i := bornLost + 1; i < len(g.lives); i++ {
		l := &g.lives[i]
		if !l.used || l.waiting > 0 || c.presence()-c.at(l.heard) <= g.memory {
			continue
		}
		if l.returned+l.released > 0 {
			g.ends = append(g.ends, GatewayEnd{Gateway: schemas.GatewayID(l.id), Epoch: l.epoch, HeardAt: l.heard,
				Returned: l.returned, Released: l.released})
		}
		*l = life{}
		g.free = append(g.free, uint16(i))
	}
}

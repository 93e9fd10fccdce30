package liveness

import "github.com/stillhere/stillhere/schemas"

// maxGateways bounds the table of gateways of a partition: their numbers have 16
// bits. Beats through one that finds no place count as coming through none.
const maxGateways = 1<<16 - 1

// gateway is one life (epoch) of a gateway, as seen in this partition.
type gateway struct {
	id       string
	epoch    schemas.Millis
	heard    schemas.Millis // log time of its newest frame
	sequence uint64         // of its newest frame
	older    uint16         // the life before, 0 = none known
	used     bool
	linked   bool // can be found by its id
	waiting  int  // devices in the queue
	// Lost in [lostAt, backAt), or for good when backAt is never.
	lostAt, backAt presence
	ended          bool // lost for good: it said draining, or a newer life began
	back, let      int  // devices of the cohort that came back, that were let go
}

// gateways is the table of a partition. Row 0 stands for no gateway.
type gateways struct {
	rows   []gateway
	newest map[string]uint16
	free   []uint16
	memory presence     // how long a silent gateway is remembered
	ends   []GatewayEnd // to be told
}

func newGateways(memory presence) gateways {
	return gateways{rows: make([]gateway, 1), newest: map[string]uint16{}, memory: memory}
}

// GatewayEnd sums up what became of the devices of a lost gateway.
type GatewayEnd struct {
	Gateway  schemas.GatewayID
	Epoch    schemas.Millis // when that gateway process had started
	LostAt   schemas.Millis
	Returned int // devices that were heard again in time
	Released int // devices that were let go
}

// hear notes a frame. It returns the gateway's row, and false when the frame is a
// duplicate. x is the evaluation clock. lostFrames is how many frames of the
// gateway are missing before this one.
func (g *gateways) hear(c *clock, f *schemas.Frame, silence, x presence) (row uint16, lostFrames uint64, fresh bool) {
	row = g.row(c, f)
	if row == 0 {
		return 0, 0, true
	}
	w := &g.rows[row]
	if f.Sequence != 0 {
		if f.Sequence <= w.sequence {
			return row, 0, false
		}
		if w.sequence != 0 {
			lostFrames = f.Sequence - w.sequence - 1
		}
		w.sequence = f.Sequence
	}
	if limit := c.at(w.heard) + silence; !w.ended && limit <= x {
		w.lostAt, w.backAt = limit, c.presence()
	}
	w.heard = c.now
	if f.Draining && !w.ended {
		w.end(c.presence())
	}
	return row, lostFrames, true
}

// end makes the gateway lost for good.
func (w *gateway) end(at presence) {
	w.lostAt, w.backAt, w.ended = at, never, true
}

// row finds or makes the row of the frame's gateway and epoch.
func (g *gateways) row(c *clock, f *schemas.Frame) uint16 {
	if len(f.Gateway) == 0 {
		return 0
	}
	for i := g.newest[string(f.Gateway)]; i != 0; {
		w := &g.rows[i]
		switch older := w.older; {
		case g.forgotten(c, w):
			g.unlink(i)
			i = older
		case w.epoch == f.GatewayEpoch:
			return i
		default:
			i = older
		}
	}
	newest := g.newest[string(f.Gateway)]
	i := g.place()
	if i == 0 {
		return 0
	}
	id := string(f.Gateway)
	g.rows[i] = gateway{id: id, epoch: f.GatewayEpoch, heard: c.now, used: true, linked: true, backAt: never, lostAt: never, older: newest}
	if newest == 0 {
		g.newest[id] = i
		return i
	}
	if previous := &g.rows[newest]; f.GatewayEpoch > previous.epoch {
		g.newest[id] = i
		if !previous.ended {
			previous.end(c.presence())
		}
		return i
	}
	// A frame of a life that is already over: it goes behind the newest one.
	g.rows[i].older, g.rows[newest].older = g.rows[newest].older, i
	g.rows[i].end(c.presence())
	return i
}

func (g *gateways) place() uint16 {
	if n := len(g.free); n > 0 {
		i := g.free[n-1]
		g.free = g.free[:n-1]
		return i
	}
	if len(g.rows) > maxGateways {
		return 0
	}
	g.rows = append(g.rows, gateway{})
	return uint16(len(g.rows) - 1)
}

// lost tells whether the gateway was lost at the presence instant p, which has
// been reached.
func (g *gateways) lost(c *clock, row uint16, p, silence presence) bool {
	w := &g.rows[row]
	if !w.used {
		return false
	}
	return w.lostAt <= p && p < w.backAt || !w.ended && c.at(w.heard)+silence <= p
}

// returned counts a device that is heard again, through the row now, when it
// belongs to the cohort of a lost gateway.
func (g *gateways) returned(c *clock, d *device, now uint16, silence presence) {
	w := &g.rows[d.gateway]
	if d.phase == queued {
		w.waiting--
	}
	if d.gateway != 0 && (d.phase != present || d.gateway != now && g.lost(c, d.gateway, c.presence(), silence)) {
		w.back++
	}
}

// queued counts a device of the row's cohort that waits to be let go.
func (g *gateways) queued(row uint16) { g.rows[row].waiting++ }

// released counts a device of the row's cohort that was let go.
func (g *gateways) released(row uint16) {
	g.rows[row].waiting--
	g.rows[row].let++
}

// forgotten tells whether the gateway has sent nothing for so long that it counts
// as never heard.
func (g *gateways) forgotten(c *clock, w *gateway) bool {
	return c.presence()-c.at(w.heard) > g.memory
}

// sweep frees the rows of gateways that are forgotten and whose devices are all
// accounted for.
func (g *gateways) sweep(c *clock) {
	for i := 1; i < len(g.rows); i++ {
		w := &g.rows[i]
		if !w.used || !g.forgotten(c, w) {
			continue
		}
		if w.linked {
			g.unlink(uint16(i))
		}
		if w.waiting == 0 {
			g.finish(c, w)
			*w = gateway{}
			g.free = append(g.free, uint16(i))
		}
	}
}

// finish notes the end of a gateway that was lost.
func (g *gateways) finish(c *clock, w *gateway) {
	if w.back+w.let == 0 && !w.ended {
		return
	}
	lostAt := w.lostAt
	if lostAt == never {
		lostAt = c.at(w.heard)
	}
	g.ends = append(g.ends, GatewayEnd{Gateway: schemas.GatewayID(w.id), Epoch: w.epoch, LostAt: c.wall(lostAt), Returned: w.back, Released: w.let})
}

// unlink takes row i out of the chain of its gateway's lives.
func (g *gateways) unlink(i uint16) {
	w := &g.rows[i]
	w.linked = false
	if g.newest[w.id] == i {
		if w.older == 0 {
			delete(g.newest, w.id)
		} else {
			g.newest[w.id] = w.older
		}
		return
	}
	for j := g.newest[w.id]; j != 0; j = g.rows[j].older {
		if g.rows[j].older == i {
			g.rows[j].older = w.older
			return
		}
	}
}

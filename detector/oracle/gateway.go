package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// gateway is one life (epoch) of a gateway.
type gateway struct {
	id       string
	epoch    schemas.Millis
	heard    schemas.Millis // log time of its last frame
	sequence uint64         // greatest heard
	// The newest stretch of silence that ended by being heard again.
	lost, back millis
	// Lost for good from lost on.
	forGood bool
}

// hear applies what f says about its gateway; nil if it names none. It reports
// false for a duplicate frame, of which nothing counts.
func (w *world) hear(f *schemas.Frame) (*gateway, bool) {
	if len(f.Gateway) == 0 {
		return nil, true
	}
	id, now := string(f.Gateway), w.presence(w.now)
	memory := w.present + w.window + w.lateness
	w.gateways = slices.DeleteFunc(w.gateways, func(g *gateway) bool { return now-w.presence(g.heard) > memory })

	var own, newest *gateway
	for _, g := range w.gateways {
		if g.id != id {
			continue
		}
		if g.epoch == f.GatewayEpoch {
			own = g
		}
		if newest == nil || g.epoch > newest.epoch {
			newest = g
		}
	}
	switch {
	case own == nil:
		own = &gateway{id: id, epoch: f.GatewayEpoch, heard: w.now}
		w.gateways = append(w.gateways, own)
		if newest != nil && newest.epoch > own.epoch {
			own.loseForGood(now)
		}
	case f.Sequence != 0 && f.Sequence <= own.sequence:
		return own, false
	}
	own.sequence = max(own.sequence, f.Sequence)
	for _, g := range w.gateways {
		if g.id == id && g.epoch < own.epoch {
			g.loseForGood(min(w.silentAt(g), now))
		}
	}
	lost := now
	if limit := w.silentAt(own); limit <= w.x && !own.forGood {
		own.lost, own.back = limit, now
		lost = limit
	}
	own.heard = w.now
	if f.Draining {
		own.loseForGood(lost)
	}
	return own, true
}

func (g *gateway) loseForGood(at millis) {
	if !g.forGood {
		g.lost, g.forGood = at, true
	}
}

// silentAt is when g counts as lost if it is not heard again.
func (w *world) silentAt(g *gateway) millis { return w.presence(g.heard) + w.silence }

// lostAt tells whether g was lost at p, as far as is known now.
func (w *world) lostAt(g *gateway, p millis) bool {
	switch {
	case g == nil:
		return false
	case g.forGood:
		return p >= g.lost
	}
	return p >= g.lost && p < g.back || p >= w.silentAt(g)
}

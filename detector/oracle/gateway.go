package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// gateway is what is remembered of one epoch of a gateway: its last frame.
type gateway struct {
	id       string
	epoch    schemas.Millis
	heard    schemas.Millis // log time of its last frame
	sequence uint64         // of its last frame
	life     *life          // that goes on; nil when it has ended
}

// life is a stretch in which a gateway was not lost.
type life struct {
	heard    schemas.Millis // log time of its last frame
	ended    bool
	lost     millis // when ended
	bornLost bool   // it was lost before it began
}

// hear applies what f says about its gateway, and returns the life that its rows
// come through, nil if the frame names no gateway. It reports false for a
// duplicate frame, of which nothing counts.
func (w *world) hear(f *schemas.Frame) (*life, bool) {
	if len(f.Gateway) == 0 {
		return nil, true
	}
	w.gateways = slices.DeleteFunc(w.gateways, func(g *gateway) bool { return w.presence(g.heard)+w.silence <= w.x })

	var own *gateway
	outlived := false
	for _, g := range w.gateways {
		switch {
		case g.id != string(f.Gateway):
		case g.epoch == f.GatewayEpoch:
			own = g
		case g.epoch > f.GatewayEpoch:
			outlived = true
		}
	}
	if own == nil {
		own = &gateway{id: string(f.Gateway), epoch: f.GatewayEpoch}
		w.gateways = append(w.gateways, own)
	} else if f.Sequence != 0 && f.Sequence <= own.sequence {
		return nil, false
	}
	for _, g := range w.gateways {
		if g.id == own.id && g.epoch < own.epoch {
			w.lose(g)
		}
	}
	own.heard, own.sequence = w.now, f.Sequence
	if own.life != nil {
		own.life.heard = w.now
	}
	if f.Draining {
		w.lose(own)
	}
	if f.Draining || outlived {
		return &life{bornLost: true}, true
	}
	if own.life == nil {
		own.life = &life{heard: w.now}
	}
	return own.life, true
}

// lose ends the life of g at the record's P, or earlier if it was silent for too
// long before.
func (w *world) lose(g *gateway) {
	if g.life != nil {
		g.life.ended, g.life.lost = true, min(w.presence(w.now), w.presence(g.life.heard)+w.silence)
		g.life = nil
	}
}

// lostAt tells whether l has been lost at p, as far as is known now.
func (w *world) lostAt(l *life, p millis) bool {
	switch {
	case l == nil:
		return false
	case l.bornLost:
		return true
	case l.ended:
		return l.lost <= p
	}
	return w.presence(l.heard)+w.silence <= p
}

package sim

import (
	"fmt"

	"github.com/stillhere/stillhere/test/oracle/history"
)

// gateway is one process of a gateway.
type gateway struct {
	name     string
	epoch    int64
	sequence uint64
	dead     bool
	unsent   []report
	spoke    int64 // when it last sent a frame

	// Where it is heard in the topic of gateways, the owner of the partition says so: see leases.
	inTopic bool
	heard   int64 // when it was heard there last
	told    told
	// Faults of the gateway, and when they end.
	doubled, delayed, losing int64
}

// report is a row that has not been sent.
type report struct {
	row history.Row
	at  int64
}

// told is what the owner of the partition has last said of a gateway.
type told int

const (
	nothing told = iota
	leased
	ended
)

const (
	flushInterval = second
	aliveInterval = 1500
	quiet         = 4 * second // after which a lease ends
)

// longestGap is how long no frame may have come before a gateway tells of its connections again.
func (w *world) longestGap() int64 {
	return (w.h.Settings.GatewaySilence*3/4 + w.h.Settings.ReconnectWindow/2).Milliseconds()
}

// open starts the process of gateway i; it replaces the one before.
func (w *world) open(i int) {
	g := &gateway{name: fmt.Sprintf("gw-%d", i), epoch: w.now + 1, spoke: w.now, inTopic: w.chance(2), heard: w.now}
	w.processes = append(w.processes, g)
	if i < len(w.gateways) {
		w.gateways[i] = g
	} else {
		w.gateways = append(w.gateways, g)
	}
	w.after(w.between(1, flushInterval), func() { w.flush(g) })
}

func (g *gateway) take(row history.Row, now int64) {
	if !g.dead {
		g.unsent = append(g.unsent, report{row, now})
	}
}

// flush sends the unsent reports, or that the gateway is alive, again and again.
func (w *world) flush(g *gateway) {
	if g.dead {
		return
	}
	if g.inTopic && w.now >= w.brokerDown {
		if w.now-g.heard > w.longestGap() {
			w.tellAgain(g)
		}
		g.heard = w.now
	}
	if len(g.unsent) > 0 || !g.inTopic && w.now-g.spoke >= aliveInterval-flushInterval/5 {
		w.send(g, false)
	}
	w.after(flushInterval-w.Int64N(flushInterval/5), func() { w.flush(g) })
}

// send writes a frame. While the broker is down, the reports stay unsent.
func (w *world) send(g *gateway, draining bool) {
	r := history.Record{Gateway: g.name, Epoch: g.epoch, Draining: draining}
	for _, h := range g.unsent {
		row := h.row
		row.Age += w.now - h.at
		r.Rows = append(r.Rows, row)
	}
	if w.now < w.brokerDown {
		return
	}
	g.sequence++
	r.Sequence = g.sequence
	gap := w.now - g.spoke
	if g.unsent, g.spoke = nil, w.now; gap > w.longestGap() && !g.inTopic {
		w.tellAgain(g)
	}
	write := func() { w.append(r) }
	switch {
	case w.now < g.losing && w.chance(2):
	case w.now < g.delayed:
		// The ages are those of when the frame was sealed: it arrives too late.
		w.after(w.between(1, 20*second), write)
	default:
		write()
	}
	if w.now < g.doubled && w.chance(2) {
		w.after(w.between(1, 2*second), write)
	}
}

// tellAgain has g report its open connections: the detector may have lost it.
func (w *world) tellAgain(g *gateway) {
	for _, d := range w.devices {
		if d.gateway == g && d.live && d.connection != 0 {
			w.report(d, false)
		}
	}
}

// leases has the owner of the partition say what has changed of who is heard in the topic of gateways.
func (w *world) leases() {
	for _, g := range w.processes {
		of := history.Record{Gateway: g.name, Epoch: g.epoch}
		switch silent := w.now - g.heard; {
		case !g.inTopic:
		case silent < aliveInterval && !g.dead && g.told != leased:
			if of.Leased = true; w.append(of) {
				g.told = leased
			}
		case silent > quiet && g.told != ended:
			if of.LeaseEnded = silent; w.append(of) {
				g.told = ended
			}
		}
	}
}

// lose disconnects all devices of g, without a bye. Most reconnect within the given time,
// through any gateway.
func (w *world) lose(g *gateway, within int64) {
	for _, d := range w.devices {
		if d.gateway != g || !d.live {
			continue
		}
		d.live = false
		wait := within
		if w.chance(5) {
			wait = 15 * minute
		}
		w.after(w.between(1, wait), func() { w.connect(d, w.pick()) })
	}
}

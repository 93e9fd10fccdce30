package sim

import (
	"github.com/stillhere/stillhere/test/oracle/history"
)

// fault chooses what goes wrong in this minute.
func (w *world) fault() {
	w.after(minute, w.fault)
	i := w.IntN(len(w.gateways))
	g := w.gateways[i]
	faults := []struct {
		name string
		do   func()
	}{
		{"none", func() {}},
		{"broker outage", func() { w.brokerDown = w.now + w.between(second, 90*second) }},
		{"detector restarts", func() {
			for range 1 + w.IntN(5) {
				w.after(w.between(0, minute), func() { w.restartsNext = true })
			}
		}},
		{"detector down", func() {
			w.tickerDown = w.now + w.between(second, 30*second)
			w.at(w.tickerDown, func() { w.restartsNext = true })
		}},
		{"old records deleted while the detector restarts", func() { w.loseNext = history.Record{Lose: history.LostLog, Keep: w.IntN(30)} }},
		{"all records deleted while the detector is down", func() {
			w.tickerDown = w.now + w.between(second, 30*second)
			w.at(w.tickerDown, func() { w.loseNext = history.Record{Lose: history.LostLog, Keep: -w.IntN(10)} })
		}},
		{"group reset", func() { w.loseNext = history.Record{Lose: history.LostCommit, Keep: w.IntN(30)} }},
		{"gateway crash", func() { w.crash(i, g) }},
		{"gateway drain", func() { w.drain(i, g) }},
		{"gateway replaced while it still sends", func() {
			// The old process goes on for a while: a zombie.
			w.open(i)
			w.after(w.between(second, minute), func() { g.dead = true; w.lose(g, minute) })
		}},
		{"duplicate frames", func() { g.doubled = w.now + w.between(second, minute) }},
		{"late frames", func() { g.delayed = w.now + w.between(second, 30*second) }},
		{"lost frames", func() { g.losing = w.now + w.between(second, 30*second) }},
		{"all of a gateway's devices vanish", func() { w.lose(g, 2*minute) }},
		{"the broker's clock steps", func() {
			w.skew = w.between(-3*second, 3*second)
			w.after(w.between(second, 5*minute), func() { w.skew = 0 })
		}},
		{"garbage", func() { w.append(history.Record{Garbage: true}) }},
		{"visibility", w.flipVisibility},
	}
	fault := faults[w.IntN(len(faults))]
	w.faults[fault.name]++
	w.after(w.between(0, minute), fault.do)
}

// crash ends a process without a bye; another one replaces it.
func (w *world) crash(i int, g *gateway) {
	g.dead = true
	w.lose(g, minute)
	w.after(w.between(second, 2*minute), func() { w.replace(i, g) })
}

// drain ends a process in good order.
func (w *world) drain(i int, g *gateway) {
	if g.dead {
		return
	}
	w.send(g, true)
	g.dead = true
	w.lose(g, minute/2)
	w.after(w.between(second, minute), func() { w.replace(i, g) })
}

// replace starts a process instead of g, unless one has started already.
func (w *world) replace(i int, g *gateway) {
	if w.gateways[i] == g {
		w.open(i)
	}
}

// flipVisibility hides some user, and shows it again later.
func (w *world) flipVisibility() {
	user := w.devices[w.IntN(len(w.devices))].user
	w.append(history.Record{Hide: user})
	w.after(w.between(0, 5*minute), func() { w.append(history.Record{Show: user}) })
}

package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// gateways is what a partition knows of gateways: those heard recently, and the lives through which
// devices were heard.
type gateways struct {
	known    map[string]*gateway // by id
	oldest   *epoch              // the one without a lease heard longest ago; the first of a list that ends with newest
	newest   *epoch
	standIns map[standIn]uint16 // lives that no frame begins or ends
	lives    []life             // the first few stand for no single gateway, see noLife
	free     []uint16
	swept    int          // where the next sweep begins
	ends     []GatewayEnd // for the next Output

	present  int            // reports of present devices that came through a life
	silenced int            // of those, through lives that were lost by silence
	mute     map[string]int // by id: such lives with present devices, if there are any
	overflow uint64

	unplanned []uint16 // closed lives whose devices have no times to leave yet, in the order of ids and epochs
	freeAt    int64    // presence time from which the next of them leave, microseconds
	held      presence // how much longer than the reconnect window devices may stay, by plans that are not over
	heldUntil presence // when the last of these plans is over
	nextPlan  presence // when the next of the unplanned lives is due; 0: not known
	unheard   presence // when users of lives that were lost have to be looked for; never: there are none

	silence presence       // how long a gateway may be silent
	from    schemas.Millis // since when, in log time: no gateway falls silent before
	idle    []*gateway     // those without epochs, and some with

	ticked    schemas.Millis // log time of the newest tick of an owner that keeps up; 0: before the first record
	unowned   bool           // as of the record at hand, that is more than maxStep of presence time ago
	ownedFrom schemas.Millis // log time of the newest such tick that came while unowned; 0: there was none

	sorted []seenDevice // scratch of devicesOfLives
}

// standIn names a life of rows that come through none: they were forwarded, or their gateway is crowded.
type standIn struct {
	id    string
	epoch schemas.Millis
	end   ending
}

// life is a period in which a gateway was not lost. A report has the number of the life that it
// came through.
type life struct {
	id       string
	epoch    schemas.Millis
	heard    schemas.Millis // log time of its last frame
	lostAt   schemas.Millis // log time at which it ended; 0: it has not, or is a standIn
	end      ending
	used     bool
	closedAt schemas.Millis // log time from which on no row comes through it; 0: it goes on, or is heard after its end
	resumed  schemas.Millis // log time at which it was heard again after it had been lost; 0: it was not
	leased   bool           // its epoch has a lease
	begun    schemas.Millis // log time from which on it names all open connections; 0: it does not
	empty    bool           // it had no devices then, so none can be left unnamed
	planned  presence       // when its devices got their times to leave; 0: they have none
	wait     presence       // how much later than others the first device of its cohort leaves,
	spread   int64          // and in what time all of them do, microseconds
	reports  int            // that came through it, byes included
	present  int            // of present devices
	returned int            // devices of its cohort that were heard again
	released int            // devices of its cohort that were released
}

// ending is how a life ended.
type ending uint8

const (
	ongoing   ending = iota
	silent           // too long without a frame
	outlived         // a newer epoch of the gateway was heard
	drained          // the gateway announced that it stops
	forwarded        // no end: it stands for the gateway of forwarded rows
	crowded          // no end: it stands for all epochs of a crowded gateway, and for its frames of none
)

const (
	// noLife is for reports through no gateway. Reports through gateways for which the table has no
	// place share a life; no bye ends them.
	noLife    uint16 = 0
	noPlace   uint16 = 1
	firstLife        = 2

	// maxLives bounds the table: its numbers have 16 bits. Beats through further gateways have no
	// cohort.
	maxLives = 1 << 16
)

// GatewayEnd sums up what happened to the devices of a lost or drained gateway.
type GatewayEnd struct {
	Gateway  schemas.GatewayID
	Epoch    schemas.Millis // when that gateway process had started
	HeardAt  schemas.Millis // its last frame
	Drained  bool           // it had announced that it stops
	Returned int            // devices that were heard again in time
	Released int            // devices that were released
}

func newGateways() gateways {
	g := gateways{known: map[string]*gateway{}, standIns: map[standIn]uint16{}, lives: make([]life, firstLife),
		unheard: never, swept: firstLife, mute: map[string]int{}}
	return g
}

// hear records a frame. Gateways that have been silent for too long are already forgotten. It
// returns the life that the frame's beats come through; fresh is false for a duplicate frame, which
// does not count. missing is how many frames the sequence lacks before this one.
func (g *gateways) hear(c *clock, f *schemas.Frame) (number uint16, missing uint64, fresh bool) {
	if f.Forwarded && f.Rows() == 0 || !f.Forwarded && len(f.Gateway) == 0 {
		return noLife, 0, true
	}
	known := g.known[string(f.Gateway)]
	if f.LeaseEnded != 0 {
		g.endLease(c, known, f)
		return noLife, 0, true
	}
	if known == nil {
		known = &gateway{id: string(f.Gateway), idle: true}
		g.known[known.id], g.idle = known, append(g.idle, known)
	}
	switch {
	case f.Forwarded && f.GatewayEpoch != 0 && known.others.crowded(c, f.GatewayEpoch, g.silence):
		return g.standIn(known.id, 0, forwarded), 0, true
	case f.Forwarded:
		return g.standIn(known.id, f.GatewayEpoch, forwarded), 0, true
	case f.GatewayEpoch == 0:
		return g.standIn(known.id, 0, crowded), 0, true
	}
	tooMany := known.own.crowded(c, f.GatewayEpoch, g.silence)
	switch {
	case known.own.duplicate(c, f.Sequence, g.silence):
		return 0, 0, false
	case tooMany:
		if own := known.find(f.GatewayEpoch); f.Leased && own != nil && own.life != 0 {
			own.draining = f.Draining
			g.lease(own)
		}
		return g.standIn(known.id, 0, crowded), 0, true
	}
	own, ends := known.find(f.GatewayEpoch), ongoing
	if slices.ContainsFunc(known.epochs, func(e *epoch) bool { return e.epoch > f.GatewayEpoch }) {
		ends = outlived
	}
	if own == nil {
		own = &epoch{id: known.id, epoch: f.GatewayEpoch}
		own.life = g.resume(c, own)
		known.epochs = append(known.epochs, own)
	} else {
		if gap := f.Sequence - own.sequence; own.sequence != 0 && gap-1 < 1<<blockBits {
			missing = gap - 1
		}
		g.unlink(own)
	}
	if own.heard = c.now; f.Sequence != 0 {
		own.sequence = f.Sequence
	}
	g.link(own)
	own.draining = f.Leased && f.Draining || !f.Leased && own.draining
	for _, e := range known.epochs {
		if e.epoch < own.epoch {
			g.lose(c, e, outlived)
		}
	}
	if own.life != 0 {
		g.lives[own.life].heard = c.now
	}
	drains := &known.own[0].draining
	if f.Draining {
		*drains = counted{c.now, g.silence}
	}
	if drains.counts(c) || own.leased && own.draining {
		ends = drained
	}
	if own.life == 0 || ends == ongoing && g.lives[own.life].end != ongoing {
		g.close(c, own, c.now)
		if own.life = g.begin(life{id: own.id, epoch: own.epoch, heard: c.now, used: true}); own.life == 0 {
			g.overflow++
			if own.leased { // none without a life
				own.leased = false
				g.link(own)
			}
			return noPlace, missing, true
		}
	}
	if ends != ongoing {
		g.lose(c, own, ends)
	}
	if f.Leased || own.leased {
		g.lease(own)
	}
	return own.life, missing, true
}

// find is the epoch of the gateway that started then; nil: it is not remembered.
func (known *gateway) find(started schemas.Millis) *epoch {
	for _, e := range known.epochs {
		if e.epoch == started {
			return e
		}
	}
	return nil
}

// lease begins a lease of e, or has it go on in the current life.
func (g *gateways) lease(e *epoch) {
	g.unlink(e)
	e.leased, g.lives[e.life].leased = true, true
}

// endLease ends the lease that f names, if there is one: the gateway's process was heard last so long ago.
func (g *gateways) endLease(c *clock, known *gateway, f *schemas.Frame) {
	if known == nil {
		return
	}
	e := known.find(f.GatewayEpoch)
	if e == nil || !e.leased {
		return
	}
	l := &g.lives[e.life]
	e.leased, l.leased = false, false
	e.heard = max(e.heard, c.now-min(f.LeaseEnded, schemas.Millis(g.silence/2)))
	l.heard = max(l.heard, e.heard)
	g.link(e)
}

// link puts e into the list, unless it has a lease.
func (g *gateways) link(e *epoch) {
	if e.leased {
		return
	}
	for e.prev = g.newest; e.prev != nil && e.prev.heard > e.heard; {
		e.next, e.prev = e.prev, e.prev.prev
	}
	if e.prev != nil {
		e.prev.next = e
	} else {
		g.oldest = e
	}
	if e.next != nil {
		e.next.prev = e
	} else {
		g.newest = e
	}
}

func (g *gateways) unlink(e *epoch) {
	if e.leased {
		return
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		g.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		g.newest = e.prev
	}
	e.prev, e.next = nil, nil
}

// standIn is the life of rows that come through none that a frame begins. It is never lost: their gateway's frames are
// not counted in this partition.
func (g *gateways) standIn(id string, epoch schemas.Millis, end ending) uint16 {
	key := standIn{id, epoch, end}
	number, ok := g.standIns[key]
	if !ok {
		if number = g.begin(life{id: key.id, epoch: key.epoch, end: end, used: true}); number == 0 {
			g.overflow++
			return noPlace
		}
		g.standIns[key] = number
	}
	return number
}

// speaksFor reports whether a bye through the life said ends reports through the life of: both are of one
// gateway, and it had started no later then.
func (g *gateways) speaksFor(said, of uint16) bool {
	return said != noPlace && g.same(said, of) && g.lives[of].epoch <= g.lives[said].epoch
}

// ofNoProcess reports whether rows through the life name a gateway and no process of it. Whoever may speak for the
// gateway has not shown to hold the connection.
func (g *gateways) ofNoProcess(number uint16) bool {
	l := &g.lives[number]
	return l.id != "" && l.epoch == 0
}

// same reports whether two lives are of one gateway.
func (g *gateways) same(a, b uint16) bool {
	return a == b || a != noPlace && b != noPlace && g.lives[a].id == g.lives[b].id
}

// counts reports whether r came through the gateway of the life via, or whether that is all.
func (g *gateways) counts(r *report, via int) bool { return via == all || g.same(r.life, uint16(via)) }

// begin gives a life a number; 0 if the table is full.
func (g *gateways) begin(l life) uint16 {
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
	g.lives[number] = l
	return number
}

// lose ends the life of e now, or at the earlier instant at which its silence became too long.
func (g *gateways) lose(c *clock, e *epoch, why ending) {
	l, at := &g.lives[e.life], c.now
	if e.life == 0 || l.end != ongoing {
		return
	}
	if limit := g.silentAt(c, l.heard); !l.leased && limit <= c.presence() {
		why, at = silent, c.wall(limit)
	}
	l.end, l.lostAt = why, at
	if why == silent && l.present > 0 {
		g.silenced += l.present
		g.mutes(l.id, 1)
	}
}

// mutes counts lives of a gateway that were lost by silence and have present devices.
func (g *gateways) mutes(id string, n int) {
	if g.mute[id] += n; g.mute[id] == 0 {
		delete(g.mute, id)
	}
}

// close makes no more rows come through the life of e, which has ended if there is one.
func (g *gateways) close(c *clock, e *epoch, at schemas.Millis) {
	if e.life == 0 {
		return
	}
	l := &g.lives[e.life]
	l.closedAt, l.leased, g.nextPlan = at, false, 0
	g.unheard = min(g.unheard, c.at(at)+unsureAfter)
	i, _ := slices.BinarySearchFunc(g.unplanned, l, func(n uint16, l *life) int {
		o := &g.lives[n]
		return cmp.Or(cmp.Compare(o.id, l.id), cmp.Compare(o.epoch, l.epoch), cmp.Compare(o.closedAt, l.closedAt), -1)
	})
	g.unplanned = slices.Insert(g.unplanned, i, e.life)
}

// resume undoes the loss of a life of e that fell silent and whose devices have no times to leave yet. 0: there is none.
func (g *gateways) resume(c *clock, e *epoch) uint16 {
	i := slices.IndexFunc(g.unplanned, func(n uint16) bool {
		l := &g.lives[n]
		return l.epoch == e.epoch && l.end == silent && l.id == e.id
	})
	if i < 0 {
		return 0
	}
	number := g.unplanned[i]
	l := &g.lives[number]
	if g.silenced -= l.present; l.present > 0 {
		g.mutes(l.id, -1)
	}
	l.end, l.lostAt, l.closedAt, l.resumed, l.returned = ongoing, 0, 0, c.now, 0
	g.unplanned, g.nextPlan = slices.Delete(g.unplanned, i, i+1), 0
	g.unheard = min(g.unheard, c.presence()+unsureAfter)
	return number
}

// lost reports whether the life had ended at the presence instant p, which is not in the future.
func (g *gateways) lost(c *clock, number uint16, p presence) bool {
	l := &g.lives[number]
	if number < firstLife || l.endless() {
		return false
	}
	over := never
	if !l.leased {
		over = c.at(l.heard) + g.silence
	}
	if l.end != ongoing {
		over = min(over, c.at(l.lostAt))
	}
	return over <= p
}

// endless reports whether l stands for lives that end elsewhere, or cannot be told apart.
func (l *life) endless() bool { return l.end == forwarded || l.end == crowded }

// nextSilence is when the next gateway is lost by silence.
func (g *gateways) nextSilence(c *clock) presence {
	if g.oldest == nil {
		return never
	}
	return g.silentAt(c, g.oldest.heard)
}

// silentAt is when a gateway heard at the log time heard is lost by silence.
func (g *gateways) silentAt(c *clock, heard schemas.Millis) presence {
	return max(c.at(heard)+g.silence, c.at(g.from))
}

// forgetSilent ends the lives of gateways that have been silent for too long at the presence
// instant p, and forgets them.
func (g *gateways) forgetSilent(c *clock, p presence) {
	for e := g.oldest; e != nil && g.silentAt(c, e.heard) <= p; e = g.oldest {
		g.lose(c, e, silent)
		g.close(c, e, c.wall(g.silentAt(c, e.heard)))
		g.unlink(e)
		g.forget(e)
	}
}

// forget drops e.
func (g *gateways) forget(e *epoch) {
	known := g.known[e.id]
	known.epochs = slices.DeleteFunc(known.epochs, func(o *epoch) bool { return o == e })
	if len(known.epochs) == 0 && !known.idle {
		known.idle, g.idle = true, append(g.idle, known)
	}
}

// attach counts a report.
func (g *gateways) attach(r *report) { g.count(r, 1) }

// detach takes a report out of the count.
func (g *gateways) detach(r *report) { g.count(r, -1) }

func (g *gateways) count(r *report, n int) {
	if r.life == noLife {
		return
	}
	l := &g.lives[r.life]
	l.reports += n
	if !r.live() || r.life == noPlace || l.endless() {
		return
	}
	g.present += n
	if l.end == silent {
		g.silenced += n
		if l.present == 0 || l.present+n == 0 {
			g.mutes(l.id, n)
		}
	}
	l.present += n
}

// returned counts a device that is heard again, through the life now, if it belongs to the cohort
// of a lost one.
func (g *gateways) returned(c *clock, r *report, now uint16) {
	if r.life != now && g.lost(c, r.life, c.presence()) {
		g.lives[r.life].returned++
	}
}

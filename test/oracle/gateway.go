package oracle

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// gateway is what is remembered of one epoch of a gateway: its last frame that was no duplicate.
type gateway struct {
	id    string
	epoch schemas.Millis
	heard schemas.Millis // log time of that frame, or until when it was heard by a lease that ended later
	life  *life          // the current one; nil: none
	// leased: it does not fall silent. stops: the newest frame that said so was draining.
	leased, stops bool
}

// notable is a frame that counts for as long as a gateway may be silent, by the shortest of the policies since.
type notable struct {
	of        origin
	forwarded bool
	draining  bool // and no duplicate
	at        schemas.Millis
	silence   millis
}

func (w *world) counts(n *notable) bool { return w.presence(w.now) < w.presence(n.at)+n.silence }

// notes remembers f, and reports whether its gateway is crowded: there are frames of more than four of its epochs. What
// detectors have forwarded is counted for itself.
func (w *world) notes(f *schemas.Frame) (crowded bool) {
	w.notable = slices.DeleteFunc(w.notable, func(n notable) bool { // only those that never count again
		return w.presence(w.now) > w.presence(n.at)+n.silence+60_000
	})
	w.notable = append(w.notable, notable{of: origin{string(f.Gateway), f.GatewayEpoch}, forwarded: f.Forwarded, at: w.now, silence: w.silence})
	epochs := map[schemas.Millis]bool{}
	for _, n := range w.notable {
		if n.of.id == string(f.Gateway) && n.forwarded == f.Forwarded && w.counts(&n) {
			epochs[n.of.epoch] = true
		}
	}
	return len(epochs) > 4
}

// forgetNumbers forgets the sequences of all epochs of a gateway but the five with the latest frames, duplicates
// included.
func (w *world) forgetNumbers(id string) {
	latest := map[origin]bool{}
	for _, n := range slices.Backward(w.notable) {
		if n.of.id == id && !n.forwarded && !n.draining && len(latest) < 5 {
			latest[n.of] = true
		}
	}
	w.numbered = slices.DeleteFunc(w.numbered, func(n numbered) bool { return n.gateway.id == id && !latest[n.gateway] })
}

// drains reports whether a frame of the same gateway and epoch that drained still counts. It remembers f.
func (w *world) drains(f *schemas.Frame) bool {
	of := origin{string(f.Gateway), f.GatewayEpoch}
	if f.Draining {
		w.notable = append(w.notable, notable{of: of, draining: true, at: w.now, silence: w.silence})
	}
	return slices.ContainsFunc(w.notable, func(n notable) bool { return n.of == of && n.draining && w.counts(&n) })
}

// numbered is a frame with a sequence, duplicates included. It decides which other frames are
// duplicates for as long as a gateway may be silent, by the shortest of the policies since.
type numbered struct {
	gateway  origin
	sequence uint64
	at       schemas.Millis
	silence  millis
}

// nearby is how many sequences make a block. Frames of blocks that are not neighbours say nothing of one another.
const nearby = 65_536

// duplicate reports whether the newest frame of the same gateway and epoch with an equal or greater
// sequence, in the block of this one or the one after it, still counts. It remembers this frame.
func (w *world) duplicate(f *schemas.Frame) bool {
	if f.Sequence == 0 {
		return false
	}
	duplicate := false
	of := origin{string(f.Gateway), f.GatewayEpoch}
	for _, n := range w.numbered {
		if n.gateway == of && n.sequence >= f.Sequence && n.sequence/nearby <= f.Sequence/nearby+1 {
			duplicate = w.presence(w.now) < w.presence(n.at)+n.silence
		}
	}
	w.numbered = append(w.numbered, numbered{of, f.Sequence, w.now, w.silence})
	return duplicate
}

// life is a period in which a gateway was not lost, or what stands for one of frames that belong to none:
// they were forwarded, or their gateway is crowded. Frames of a gateway that drains or is outlived continue its life after
// its end.
type life struct {
	of        origin
	heard     schemas.Millis // log time of its last frame; by a lease, of the instant being handled if that is later
	begun     schemas.Millis // when the replacement of its connections began; 0: there is none
	end       ending
	endedAt   schemas.Millis // log time at which it ended
	closedAt  schemas.Millis // log time from which on no frame continues it
	resumed   schemas.Millis // log time at which it was heard again although it had been lost; 0: never
	planned   bool           // the reports of its cohort have times to leave,
	plannedAt millis         // since then:
	wait      millis         // the first of them so long after the reconnect window,
	spread    int64          // and all within so many microseconds
	forwarded bool           // stands for a gateway that writes to another partition
	lasts     bool           // is never lost
}

// ending is how a life ended.
type ending int

const (
	ongoing ending = iota
	bySilence
	byEpoch
	byDrain
	byCrowd // no end: the gateway has too many epochs
)

// hear applies f to its gateway, and returns the life that its rows come through; nil: the frame
// names no gateway, or is forwarded without a row that counts. It returns false for a duplicate frame, which does not count.
func (w *world) hear(f *frame) (*life, bool) {
	of := origin{string(f.Gateway), f.GatewayEpoch}
	if !f.Forwarded && of.id == "" || f.Forwarded && len(f.forged) == f.Rows() {
		return nil, true
	}
	crowded := of.epoch == 0 || w.notes(&f.Frame)
	if crowded {
		of.epoch = 0
	}
	if f.Forwarded {
		return w.without(of, ongoing), true
	}
	if f.GatewayEpoch != 0 {
		w.forgetNumbers(of.id)
		if w.duplicate(&f.Frame) {
			return nil, false
		}
	}
	own := w.gateway(&f.Frame)
	if own == nil && !crowded {
		own = &gateway{id: of.id, epoch: of.epoch, life: w.resume(of)}
		w.gateways = append(w.gateways, own)
	}
	if f.Leased && own != nil {
		own.leased, own.stops = true, f.Draining
	}
	if crowded {
		w.reach(w.reached)
		return w.without(of, byCrowd), true
	}
	outlived := slices.ContainsFunc(w.gateways, func(g *gateway) bool { return g.id == own.id && g.epoch > own.epoch })
	for _, g := range w.gateways {
		if g.id == own.id && g.epoch < own.epoch {
			w.lose(g, byEpoch)
		}
	}
	own.heard = w.now
	if own.life != nil {
		own.life.heard = w.now
	}
	drains := w.drains(&f.Frame) || own.leased && own.stops
	if own.life == nil || own.life.end != ongoing && !drains && !outlived {
		if own.life != nil {
			own.life.closedAt = w.now
		}
		own.life = &life{of: origin{own.id, own.epoch}, heard: w.now}
	}
	if drains {
		w.lose(own, byDrain)
	}
	if outlived {
		w.lose(own, byEpoch)
	}
	return own.life, true
}

// resume undoes the loss by silence of a life of the process, unless its reports have times to leave; nil: there is none.
func (w *world) resume(of origin) *life {
	for i, l := range w.lost {
		if l.of == of && l.end == bySilence && l.closedAt != 0 && !l.planned {
			l.end, l.endedAt, l.closedAt, l.resumed = ongoing, 0, 0, w.now
			w.lost = slices.Delete(w.lost, i, i+1)
			return l
		}
	}
	return nil
}

// gateway is what is remembered of the gateway and epoch of f; nil: nothing.
func (w *world) gateway(f *schemas.Frame) *gateway {
	for _, g := range w.gateways {
		if g.id == string(f.Gateway) && g.epoch == f.GatewayEpoch {
			return g
		}
	}
	return nil
}

// reach makes p the instant being handled, at which gateways with a lease are heard.
func (w *world) reach(p millis) {
	w.reached = p
	for _, g := range w.gateways {
		if g.leased {
			g.life.heard = max(g.heard, w.wall(p))
		}
	}
}

// endLease applies a frame that ends a lease.
func (w *world) endLease(f *schemas.Frame) {
	if g := w.gateway(f); g != nil && g.leased {
		g.heard = max(g.heard, w.now-min(f.LeaseEnded, schemas.Millis(w.silence/2)))
		g.life.heard, g.leased = g.heard, false
	}
}

// origin names a process of a gateway.
type origin struct {
	id    string
	epoch schemas.Millis
}

// lifeless names what stands for a life of frames that belong to none.
type lifeless struct {
	of  origin
	why ending // ongoing: they were forwarded
}

// without is what stands for a life of a frame that belongs to none.
func (w *world) without(of origin, why ending) *life {
	key := lifeless{of, why}
	if w.lifeless[key] == nil {
		w.lifeless[key] = &life{of: of, end: why, forwarded: why == ongoing, lasts: why == ongoing || why == byCrowd}
	}
	return w.lifeless[key]
}

// mayEnd reports whether a bye through one life may end a report through another: it comes from the same
// process of the same gateway, or from a later one. nil is no gateway.
func mayEnd(bye, report *life) bool {
	return bye.gateway().id == report.gateway().id && bye.gateway().epoch >= report.gateway().epoch
}

// own reports whether l is of a gateway's own process, which may hold devices.
func (l *life) own() bool { return l != nil && !l.lasts }

// gateway is the one of l; nil is no gateway.
func (l *life) gateway() origin {
	if l == nil {
		return origin{}
	}
	return l.of
}

// lose ends the life of g at the record's P, or by silence if its silence became too long before.
func (w *world) lose(g *gateway, why ending) {
	if g.life == nil || g.life.end != ongoing {
		return
	}
	at := w.now
	if limit := w.fallsSilent(g); limit <= w.presence(w.now) {
		why, at = bySilence, w.wall(limit)
	}
	g.life.end, g.life.endedAt = why, at
	w.lost = append(w.lost, g.life)
}

// plans are the lost lives whose reports get their times to leave next, and when: at the end of the reconnect window,
// but not while frames continue them.
func (w *world) plans() (next []*life, limit millis) {
	limit = never
	for _, l := range w.lost {
		if l.planned || l.closedAt == 0 {
			continue
		}
		at := w.planOf(l)
		if at < limit {
			next, limit = nil, at
		}
		if at == limit {
			next = append(next, l)
		}
	}
	slices.SortStableFunc(next, func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.of.id, b.of.id), cmp.Compare(a.of.epoch, b.of.epoch), cmp.Compare(a.closedAt, b.closedAt))
	})
	return next, limit
}

// planOf is when the reports of l get their times to leave, or did.
func (w *world) planOf(l *life) millis {
	if l.planned {
		return l.plannedAt
	}
	return w.putOff(w.due(l))
}

// due is when l gets its plan where the partition has an owner.
func (w *world) due(l *life) millis { return max(w.over(l), w.presence(w.policyFrom)) }

// putOff is when a plan that is due at p is made: not less than 15 s after the newest tick that ended an unowned time;
// not while the partition is unowned, if that is more than 5 s after the newest tick; but 15 min later in any case.
func (w *world) putOff(p millis) millis {
	at := p
	if w.ownedFrom != 0 {
		at = max(at, w.presence(w.ownedFrom)+15_000)
	}
	if w.unowned && at-w.presence(w.ticked) > maxStep {
		at = p + 900_000
	}
	return min(at, p+900_000)
}

// over is when the reconnect window of l ends, or when frames do not continue it any more.
func (w *world) over(l *life) millis {
	return max(w.presence(l.endedAt)+w.window, w.presence(l.closedAt))
}

// plan gives the reports that are present through l times to leave from the presence instant p on: a step for each, after
// those of lives that were lost before.
func (w *world) plan(l *life, p millis) {
	n := 0
	for _, u := range w.users {
		for _, r := range u.reports {
			if r.life == l {
				n++
			}
		}
	}
	begins := max(int64(p)*1000, w.nextRelease)
	l.planned, l.plannedAt = true, p
	l.wait, l.spread = millis((begins+999)/1000)-w.over(l), int64(n)*w.cohortStep()
	w.nextRelease = begins + l.spread
}

// cohortStep is the time between two reports of cohorts that leave, microseconds.
func (w *world) cohortStep() int64 {
	return max((1_000_000+int64(w.policy.CohortRate)-1)/int64(w.policy.CohortRate),
		(1_000_000*int64(w.log.Partitions)+int64(w.policy.CohortTotalRate)-1)/int64(w.policy.CohortTotalRate))
}

// silenceLimit is when the next gateway is lost by silence.
func (w *world) silenceLimit() millis {
	limit := never
	for _, g := range w.gateways {
		limit = min(limit, w.fallsSilent(g))
	}
	return limit
}

// fallsSilent is when a gateway is lost by silence. A policy makes nothing due before it is in force.
func (w *world) fallsSilent(g *gateway) millis {
	if g.leased {
		return never
	}
	return max(w.presence(g.heard)+w.silence, w.presence(w.policyFrom))
}

// forgetSilent ends the lives of gateways whose silence has come due at limit, and forgets the gateways.
func (w *world) forgetSilent(limit millis) {
	w.gateways = slices.DeleteFunc(w.gateways, func(g *gateway) bool {
		if w.fallsSilent(g) > limit {
			return false
		}
		w.lose(g, bySilence)
		if g.life != nil {
			g.life.closedAt = w.wall(w.fallsSilent(g))
		}
		return true
	})
}

// lostAt reports whether l was lost at p, as known now.
func (w *world) lostAt(l *life, p millis) bool {
	switch {
	case l == nil || l.lasts:
		return false
	case l.end != ongoing && w.presence(l.endedAt) <= p:
		return true
	}
	leased := slices.ContainsFunc(w.gateways, func(g *gateway) bool { return g.life == l && g.leased })
	return !leased && w.presence(l.heard)+w.silence <= p
}

// share counts the present reports that came through lives, those whose lives were lost by silence,
// and the ids of their gateways.
func (w *world) share() (all, lost, gateways int) {
	mute := map[string]bool{}
	for _, u := range w.users {
		for _, r := range u.reports {
			if r.life == nil || r.life.lasts {
				continue
			}
			all++
			if r.life.end == bySilence {
				lost++
				mute[r.life.of.id] = true
			}
		}
	}
	return all, lost, len(mute)
}

// trip stops presence time at limit, at which gateways fell silent, if they had too many reports.
// It returns whether it did.
func (w *world) trip(limit millis) bool {
	all, lost, gateways := w.share()
	if w.policy.BreakerPercent == 0 || w.disarmed || w.stopped != 0 || gateways < 3 || lost < 100 ||
		100*lost <= w.policy.BreakerPercent*all {
		return false
	}
	w.open(w.wall(limit))
	return true
}

// updateBreaker closes or arms the breaker after a record at which the gateways have recovered.
func (w *world) updateBreaker() {
	all, lost, _ := w.share()
	if lost > 0 && w.policy.BreakerPercent > 0 && 200*lost >= w.policy.BreakerPercent*all {
		return
	}
	w.disarmed = false
	if w.stopped != 0 {
		w.close(w.now)
	}
}

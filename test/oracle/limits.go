package oracle

import (
	"maps"
	"math/big"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// never is later than any limit.
const never = millis(1<<63 - 1)

func (w *world) presentUntil(u *user, r *report) millis {
	until := w.presence(r.vouched()) + w.of(u).present
	switch {
	case r.life != nil && r.life.forwarded:
		return until + w.window
	case !r.held && r.seen < r.resumed():
		return max(until, w.presence(r.resumed())+1000) + w.window
	}
	return w.holds(r, r.held, until)
}

// holds is until when r is what its gateway vouches for, which is limit once no frame continues its life, but at least
// until a second after that.
func (w *world) holds(r *report, vouched bool, limit millis) millis {
	switch {
	case !vouched:
		return limit
	case r.life.closedAt == 0:
		return never
	}
	return max(limit, w.presence(r.life.closedAt)+1000)
}

// cohort reports whether r is in the cohort of a life that was lost before r's own limit, as far as that is known.
func (w *world) cohort(u *user, r *report) bool { return w.lostAt(r.life, w.presentUntil(u, r)) }

// leaves is when r ends unless it is heard again.
func (w *world) leaves(u *user, r *report) millis {
	until := w.presentUntil(u, r)
	switch {
	case until == never || !w.cohort(u, r):
		return until
	case w.ahead:
		return never
	case r.life.end == ongoing:
		return until
	}
	until += w.window + r.life.wait + part(u.id, r)
	if due := w.due(r.life); r.life.closedAt != 0 && !r.life.planned && w.putOff(due) != due {
		return max(until, w.putOff(due))
	}
	return max(until, r.life.plannedAt)
}

// part is the time within the spread of its life that r has for itself: the first 64 bits behind the point of a
// fraction, by SplitMix64.
func part(user schemas.UserID, r *report) millis {
	z := uint64(user) + 0x9e3779b97f4a7c15*uint64(r.device)
	for _, round := range []struct {
		shift  uint
		factor uint64
	}{{30, 0xbf58476d1ce4e5b9}, {27, 0x94d049bb133111eb}, {31, 1}} {
		z = (z ^ z>>round.shift) * round.factor
	}
	of := new(big.Int).Mul(new(big.Int).SetUint64(z), big.NewInt(r.life.spread))
	return millis(of.Rsh(of, 64).Int64() / 1000)
}

// activeUntil is when r stops being active, if it is present until then.
func (w *world) activeUntil(u *user, r *report) millis {
	idleAfter := w.of(u).idleAfter
	if idleAfter == 0 {
		return never
	}
	if r.inUse() {
		return w.holds(r, true, max(w.presence(r.vouched())+idleAfter, w.planOf(r.life)))
	}
	return w.touched(r) + idleAfter
}

// touched is when the person last touched a device that is not in use.
func (w *world) touched(r *report) millis {
	if r.held {
		return w.presence(r.told - r.idle)
	}
	return w.presence(r.told) - millis(r.idle)
}

// idleLimit is when the last active report stops being active.
func (w *world) idleLimit(u *user) millis {
	var limit millis
	for _, r := range u.reports {
		limit = max(limit, w.activeUntil(u, r))
	}
	return limit
}

// activityLimit is when an active kind of u stops being active. Without announcements, or an active kind whose devices
// are present, it is when the user does.
func (w *world) activityLimit(u *user) millis {
	ends := map[schemas.DeviceKind]millis{}
	for _, r := range u.reports {
		if u.isActive(r.kind) && w.of(u).policy.AnnounceDevices {
			ends[r.kind] = w.idleLimitOf(u, r.kind)
		}
	}
	if len(ends) == 0 {
		return w.idleLimit(u)
	}
	return slices.Min(slices.Collect(maps.Values(ends)))
}

// idleLimitOf is when the last active report of a kind stops being active.
func (w *world) idleLimitOf(u *user, kind schemas.DeviceKind) millis {
	var limit millis
	for _, r := range u.reports {
		if r.kind == kind {
			limit = max(limit, w.activeUntil(u, r))
		}
	}
	return limit
}

func (w *world) byeLimit(u *user, b bye) millis {
	return w.presence(b.time) + max(w.of(u).present, w.of(u).byeDebounce)
}

// offlineLimit is when a user without a report becomes offline.
func (w *world) offlineLimit(u *user) millis {
	if u.silent {
		return w.presence(u.silentFrom) + max(w.of(u).away, w.of(u).present) + u.held
	}
	return w.presence(u.lastBye().time) + w.of(u).byeDebounce
}

// lacks is what u's bucket lacks at p.
func (w *world) lacks(u *user, p millis) millis { return max(0, w.full(u)-p) }

// full is when u's bucket is full.
func (w *world) full(u *user) millis {
	var full millis
	if u.bucket != nil {
		full = w.presence(u.bucket.at) + u.bucket.lacks
	}
	if u.published.state != schemas.Offline {
		full = max(full, w.presence(u.since)+2*w.interval)
	}
	return full
}

// release is when the waiting changes of u may be published.
func (w *world) release(u *user) millis { return w.full(u) - w.burst }

// limits are the instants at which something is due for u. Looking ahead, nobody is unsure, and no newest change is
// forgotten.
func (w *world) limits(u *user) []millis {
	var limits []millis
	for _, r := range u.reports {
		limits = append(limits, w.leaves(u, r))
	}
	if from := w.unheardFrom(u); !w.ahead && u.unsureSince == 0 && from != never {
		limits = append(limits, from+unsureAfter)
	}
	for _, r := range u.reports {
		if !w.ahead && u.unsureSince != 0 && (r.life == nil || r.life.lasts || r.life.end == ongoing) {
			limits = append(limits, w.presence(max(r.seen, r.resumed()))+unsureAfter)
		}
	}
	for _, b := range u.byes {
		limits = append(limits, w.byeLimit(u, b))
	}
	switch {
	case len(u.reports) > 0 && u.state == schemas.Online:
		limits = append(limits, w.activityLimit(u))
	case len(u.reports) == 0 && u.state != schemas.Offline:
		limits = append(limits, w.offlineLimit(u))
	}
	if w.tooMany(u) {
		limits = append(limits, w.presence(w.of(u).from))
	}
	switch {
	case u.waits:
		limits = append(limits, w.release(u))
	case u.bucket != nil && u.state == schemas.Offline:
		limits = append(limits, w.full(u))
	}
	if limit, waits := w.forgets(u); waits && !w.ahead {
		limits = append(limits, limit)
	}
	return append(limits, w.overrideLimit(u))
}

// forgets is whether an offline user is remembered for the newest change, and when that is forgotten.
func (w *world) forgets(u *user) (limit millis, waits bool) {
	newest := u.publishedAt
	if !u.hidden() {
		newest = max(newest, u.since)
	}
	if u.state != schemas.Offline || u.waits || newest == 0 {
		return never, false
	}
	return w.presence(newest) + lateRows + 1, true
}

// next is the earliest of limits; never if there is none. A policy makes nothing due before it is
// in force.
func (w *world) next(u *user) millis {
	earliest := never
	for _, limit := range w.limits(u) {
		earliest = min(earliest, limit)
	}
	return max(earliest, w.presence(w.of(u).from))
}

package oracle

import "github.com/stillhere/stillhere/schemas"

// never is later than any limit.
const never = millis(1<<63 - 1)

func (w *world) presentUntil(u *user, r *report) millis {
	until := w.presence(r.seen) + w.of(u).present
	if r.life != nil && r.life.forwarded {
		return until + w.window
	}
	return until
}

func (w *world) due(u *user, r *report) millis { return w.presentUntil(u, r) + w.window }

// activeUntil is when r stops being active, if it is present until then.
func (w *world) activeUntil(u *user, r *report) millis {
	idleAfter := w.of(u).idleAfter
	if idleAfter == 0 {
		return never
	}
	return w.presence(r.seen) - millis(r.idle) + idleAfter
}

// idleLimit is when the last active report stops being active.
func (w *world) idleLimit(u *user) millis {
	var limit millis
	for _, r := range u.reports {
		limit = max(limit, w.activeUntil(u, r))
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
	since := u.since
	if u.waits != nil {
		since = u.waits.since
	}
	var full millis
	if u.bucket != nil {
		full = w.presence(u.bucket.at) + u.bucket.lacks
	}
	if u.published.state != schemas.Offline {
		full = max(full, w.presence(since)+2*w.interval)
	}
	return full
}

// release is when the waiting changes of u may be published.
func (w *world) release(u *user) millis { return w.full(u) - w.burst }

// limits are the instants at which something is due for u. With joins they include those at which a
// report joins the queue, or the newest change is forgotten.
func (w *world) limits(u *user, joins bool) []millis {
	var limits []millis
	for _, r := range u.reports {
		switch {
		case !r.cohort:
			limits = append(limits, w.presentUntil(u, r))
		case !r.queued && joins:
			limits = append(limits, w.due(u, r))
		}
	}
	for _, b := range u.byes {
		limits = append(limits, w.byeLimit(u, b))
	}
	switch {
	case len(u.reports) > 0 && u.state == schemas.Online:
		limits = append(limits, w.idleLimit(u))
	case len(u.reports) == 0 && u.state != schemas.Offline:
		limits = append(limits, w.offlineLimit(u))
	}
	if w.tooMany(u) {
		limits = append(limits, w.presence(w.of(u).from))
	}
	switch {
	case u.waits != nil:
		limits = append(limits, w.release(u))
	case u.bucket != nil && u.state == schemas.Offline:
		limits = append(limits, w.full(u))
	}
	if limit, waits := w.forgets(u); waits && joins {
		limits = append(limits, limit)
	}
	return limits
}

// forgets is whether an offline user is remembered for the newest change, and when that is forgotten.
func (w *world) forgets(u *user) (limit millis, waits bool) {
	newest := u.publishedAt
	if !u.hidden {
		newest = max(newest, u.since)
	}
	if u.state != schemas.Offline || u.waits != nil || newest == 0 {
		return never, false
	}
	return w.presence(newest) + lateRows + 1, true
}

// next is the earliest of limits; never if there is none. A policy makes nothing due before it is
// in force.
func (w *world) next(u *user, joins bool) millis {
	earliest := never
	for _, limit := range w.limits(u, joins) {
		earliest = min(earliest, limit)
	}
	return max(earliest, w.presence(w.of(u).from))
}

package oracle

import "github.com/stillhere/stillhere/schemas"

// never is later than any limit.
const never = millis(1<<63 - 1)

func (w *world) presentUntil(d *device) millis { return w.presence(d.seen) + w.present }

func (w *world) due(d *device) millis { return w.presentUntil(d) + w.window }

// activeUntil is when d stops being active while it is present.
func (w *world) activeUntil(d *device) millis {
	if w.idleAfter == 0 {
		return never
	}
	return w.presence(d.seen) - millis(d.idle) + w.idleAfter
}

// idleLimit is when the last active device stops being so.
func (w *world) idleLimit(u *user) millis {
	var limit millis
	for _, d := range u.devices {
		limit = max(limit, w.activeUntil(d))
	}
	return limit
}

func (w *world) byeLimit(b bye) millis {
	return w.presence(b.time) + max(w.present, w.byeDebounce)
}

// offlineLimit is when a user without a device becomes offline.
func (w *world) offlineLimit(u *user) millis {
	if u.silent {
		return w.presence(u.silentFrom) + max(w.away, w.present) + u.held
	}
	return w.presence(u.lastBye().time) + w.byeDebounce
}

// limits are the instants at which something is due for u. joins tells whether
// the limit at which a device joins the queue is among them.
func (w *world) limits(u *user, joins bool) []millis {
	var limits []millis
	for _, d := range u.devices {
		switch {
		case !d.cohort:
			limits = append(limits, w.presentUntil(d))
		case !d.queued && joins:
			limits = append(limits, w.due(d))
		}
	}
	for _, b := range u.byes {
		limits = append(limits, w.byeLimit(b))
	}
	switch {
	case len(u.devices) > 0 && u.state == schemas.Online:
		limits = append(limits, w.idleLimit(u))
	case len(u.devices) == 0 && u.state != schemas.Offline:
		limits = append(limits, w.offlineLimit(u))
	}
	return limits
}

// next is the earliest of limits; never if there is none.
func (w *world) next(u *user, joins bool) millis {
	earliest := never
	for _, limit := range w.limits(u, joins) {
		earliest = min(earliest, limit)
	}
	return earliest
}

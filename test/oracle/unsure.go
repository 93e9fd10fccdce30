package oracle

import "github.com/stillhere/stillhere/schemas"

// unsureAfter is how long a user is unheard before the status says so.
const unsureAfter millis = 1000

// unheardFrom is since when u is shown as present only by reports of lost lives; never: is not. While frames continue a
// life, its reports are as good as others until their own limits.
func (w *world) unheardFrom(u *user) millis {
	if u.hidden() || u.published.hidden() || u.published.state == schemas.Offline || len(u.reports) == 0 {
		return never
	}
	latest := -never
	for _, r := range u.reports {
		switch {
		case r.life == nil || r.life.lasts || r.life.end == ongoing:
			return never
		case r.life.closedAt == 0:
			latest = max(latest, w.presentUntil(u, r))
		default:
			latest = max(latest, min(w.presentUntil(u, r), w.presence(r.life.closedAt)))
		}
	}
	return latest
}

// updateUnsure makes u unsure or sure.
func (w *world) updateUnsure(u *user) {
	from := w.unheardFrom(u)
	switch {
	case u.unsureSince != 0 && from > w.reached:
		u.unsureSince, u.dirty = 0, true
	case u.unsureSince == 0 && from != never && max(from+unsureAfter, w.presence(w.of(u).from)) <= w.reached:
		u.unsureSince, u.dirty = w.shown[u.id], true
		for _, r := range u.reports {
			u.unsureSince = max(u.unsureSince, r.vouched(), r.life.endedAt)
		}
	}
}

package oracle

import "github.com/stillhere/stillhere/schemas"

// unheard reports whether u is shown as present, and only by reports in cohorts.
func (w *world) unheard(u *user) bool {
	for _, r := range u.reports {
		if !r.cohort {
			return false
		}
	}
	return len(u.reports) > 0 && !u.hidden && !u.published.hidden && u.published.state != schemas.Offline
}

// newest is the time of the newest report.
func (u *user) newest() (seen schemas.Millis) {
	for _, r := range u.reports {
		seen = max(seen, r.seen)
	}
	return seen
}

// firstUnheard is, of the unheard users who are not written as unsure, the one heard longest ago; of
// several the one with the smallest id. nil: there is none.
func (w *world) firstUnheard() (first *user) {
	for _, id := range w.ids() {
		u := w.users[id]
		if u.unsureSince == 0 && w.unheard(u) && (first == nil || u.newest() < first.newest()) {
			first = u
		}
	}
	return first
}

// unsureLimit is when the next user is written as unsure.
func (w *world) unsureLimit() millis {
	if w.firstUnheard() == nil {
		return never
	}
	return max(w.before, millis((w.nextUnsure+999)/1000))
}

// writeUnsure writes users as unsure by limit.
func (w *world) writeUnsure(limit millis) {
	if limit < w.before {
		return
	}
	for u := w.firstUnheard(); u != nil && w.nextUnsure <= int64(limit)*1000; u = w.firstUnheard() {
		for _, r := range u.reports {
			u.unsureSince = max(u.unsureSince, r.seen, r.life.endedAt)
		}
		w.nextUnsure = int64(limit)*1000 + w.cohortStep()
		u.unsureSince = max(u.unsureSince, w.shown[u.id])
		u.dirty = true
		w.write(u)
	}
}

package oracle

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// evaluate publishes everything that is due up to w.x, instant by instant.
func (w *world) evaluate() {
	for {
		limit := w.silenceLimit()
		for _, u := range w.users {
			limit = min(limit, w.next(u, true))
		}
		if len(w.queue) > 0 {
			limit = min(limit, w.queue[0].release)
		}
		limit = min(limit, w.unsureLimit())
		if limit > w.x {
			return
		}
		w.reached = max(w.before, limit)
		if !w.instant(limit) {
			w.x = max(w.before, limit-1)
			return
		}
	}
}

// instant handles one round of the limits due at limit. It is false if some wait for the next record.
func (w *world) instant(limit millis) (whole bool) {
	for _, id := range w.ids() {
		before := len(w.out)
		for u := w.users[id]; u != nil && w.next(u, true) == limit; u = w.users[id] {
			w.step(u, limit, true)
		}
		if n := len(w.out); n > before && n >= w.most {
			w.join()
			return false
		}
	}
	w.join()
	for len(w.queue) > 0 && w.queue[0].release == limit {
		w.releaseFirst()
	}
	if w.silenceLimit() <= limit {
		w.forgetSilent(limit)
		if w.trip(limit) {
			w.x = limit
		}
	}
	w.writeUnsure(limit)
	return true
}

// ids are the users in order of id.
func (w *world) ids() []schemas.UserID {
	var ids []schemas.UserID
	for id := range w.users {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// lookAhead handles the limits of u alone up to p.
func (w *world) lookAhead(u *user, p millis) {
	for limit := w.next(u, false); limit <= p; limit = w.next(u, false) {
		w.step(u, limit, false)
	}
}

// step handles all that is due for u at limit.
func (w *world) step(u *user, limit millis, joins bool) {
	var causes []schemas.DeviceID // the devices whose limit it is
	if u.state == schemas.Online && len(u.reports) > 0 && w.idleLimit(u) == limit {
		for _, r := range u.reports {
			if w.activeUntil(u, r) == limit {
				causes = append(causes, r.device)
			}
		}
	}
	offlineDevice := u.silentDevice
	if !u.silent {
		offlineDevice = u.lastBye().device
	}

	evicted := w.excess(u)
	causes = append(causes, evicted...)
	var ended []*report
	for _, r := range u.reports {
		switch {
		case !r.cohort && w.presentUntil(u, r) <= limit && w.lostAt(r.life, w.presentUntil(u, r)):
			r.cohort = true
		case !r.cohort && w.presentUntil(u, r) <= limit:
			ended = append(ended, r)
		case r.cohort && !r.queued && joins && w.due(u, r) <= limit:
			r.queued = true
		}
	}
	for _, r := range ended {
		u.end(r, true)
		causes = append(causes, r.device)
	}
	if len(ended) > 0 && len(u.reports) == 0 {
		w.fellSilent(u, ended, 0, false)
	}

	if len(causes) == 0 {
		causes = append(causes, offlineDevice)
	}
	w.judge(u, limit, max(w.wall(limit), w.of(u).from), reason{device: slices.Min(causes), evicted: len(evicted) > 0})
	u.byes = slices.DeleteFunc(u.byes, func(b bye) bool { return w.byeLimit(u, b) <= limit })
	if u.waits != nil && w.release(u) <= limit {
		w.catchUp(u, limit)
	}
	if u.state == schemas.Offline && u.waits == nil && u.bucket != nil && w.full(u) <= limit {
		u.bucket, u.leftOut = nil, 0
	}
	w.forget(u)
}

// fellSilent stores that the last reports of u ended silently.
func (w *world) fellSilent(u *user, ended []*report, held millis, drained bool) {
	u.silent, u.silentFrom, u.held, u.drained, u.silentDevice = true, 0, held, drained, ended[0].device
	for _, r := range ended {
		u.silentDevice = min(u.silentDevice, r.device)
		u.silentFrom = max(u.silentFrom, r.seen)
	}
}

// place is the place of a report in the release queue.
type place struct {
	user                schemas.UserID
	report              *report // if a newer report replaces it, the place stays empty
	until, due, release millis
}

// join gives a place to each report that has become due.
func (w *world) join() {
	var places []place
	for _, id := range w.ids() {
		for _, r := range w.users[id].reports {
			if r.queued && !r.placed {
				r.placed = true
				u := w.users[id]
				due := max(w.due(u, r), w.presence(w.of(u).from))
				places = append(places, place{user: id, report: r, until: w.presentUntil(u, r), due: due})
			}
		}
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.user, b.user),
			cmp.Compare(a.report.device, b.report.device),
			cmp.Compare(a.report.seen, b.report.seen))
	})
	for _, p := range places {
		release := max(int64(p.due)*1000, w.nextRelease) // microseconds
		w.nextRelease = release + w.cohortStep()
		p.release = millis((release + 999) / 1000)
		w.queue = append(w.queue, p)
	}
}

// cohortStep is the time between two releases, microseconds.
func (w *world) cohortStep() int64 {
	return max((1_000_000+int64(w.policy.CohortRate)-1)/int64(w.policy.CohortRate),
		(1_000_000*int64(w.log.Partitions)+int64(w.policy.CohortTotalRate)-1)/int64(w.policy.CohortTotalRate))
}

// releaseFirst releases the first report of the queue.
func (w *world) releaseFirst() {
	p := w.queue[0]
	w.queue = w.queue[1:]
	u := w.users[p.user]
	if u == nil || !slices.Contains(u.reports, p.report) {
		return
	}
	drained := p.report.life.end == byDrain
	u.end(p.report, true)
	if len(u.reports) == 0 {
		w.fellSilent(u, []*report{p.report}, p.release-p.until, drained)
	}
	w.judge(u, p.release, max(w.wall(p.release), w.of(u).from), reason{device: p.report.device, released: true})
	w.forget(u)
}

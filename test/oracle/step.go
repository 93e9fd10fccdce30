package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// evaluate publishes everything that is due up to w.x, instant by instant.
func (w *world) evaluate() {
	for {
		limit := w.silenceLimit()
		for _, u := range w.users {
			limit = min(limit, w.next(u))
		}
		_, plan := w.plans()
		limit = min(limit, plan)
		if limit > w.x {
			return
		}
		w.reach(max(w.before, limit))
		if !w.instant(limit) {
			return
		}
	}
}

// instant handles one round of the limits due at limit. It is false if some wait for the next record.
func (w *world) instant(limit millis) (whole bool) {
	silent := w.silenceLimit() <= limit
	if silent {
		w.forgetSilent(limit)
	}
	for lives, at := w.plans(); at <= limit; lives, at = w.plans() {
		for _, l := range lives {
			w.plan(l, limit)
		}
	}
	whole = w.usersAt(limit)
	if !whole {
		w.x = max(w.before, limit-1)
	}
	if silent && w.trip(limit) {
		w.x = limit
	}
	return whole
}

// usersAt handles the limits of users at limit. It is false if those of some wait for the next record.
func (w *world) usersAt(limit millis) bool {
	for _, id := range w.ids() {
		before := w.written
		for u := w.users[id]; u != nil && w.next(u) == limit; u = w.users[id] {
			w.step(u, limit)
		}
		if w.written == before {
			continue
		}
		if w.most--; w.most == 0 {
			return false
		}
	}
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
	w.ahead = true
	for limit := w.next(u); limit <= p; limit = w.next(u) {
		w.step(u, limit)
	}
	w.ahead = false
}

// step handles all that is due for u at limit.
func (w *world) step(u *user, limit millis) {
	var causes []schemas.DeviceID // the devices whose limit it is
	if u.state == schemas.Online && len(u.reports) > 0 && w.activityLimit(u) <= limit {
		for _, r := range u.reports {
			if w.activeUntil(u, r) == limit && w.idleLimitOf(u, r.kind) == limit {
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
		if w.leaves(u, r) <= limit {
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		u.end(r, true)
		causes = append(causes, r.device)
	}
	if len(ended) > 0 && len(u.reports) == 0 {
		w.fellSilent(u, ended)
	}

	if len(causes) == 0 {
		causes = append(causes, offlineDevice)
	}
	at := max(w.wall(limit), w.of(u).from)
	w.judge(u, limit, at, reason{device: slices.Min(causes), evicted: len(evicted) > 0})
	u.byes = slices.DeleteFunc(u.byes, func(b bye) bool { return w.byeLimit(u, b) <= limit })
	if w.overrideLimit(u) <= limit {
		w.endOverride(u, limit)
	}
	if u.waits && w.release(u) <= limit {
		w.catchUp(u, limit, at)
	}
	if u.state == schemas.Offline && !u.waits && u.bucket != nil && w.full(u) <= limit {
		u.bucket, u.leftOut = nil, 0
	}
	w.forget(u)
}

// fellSilent stores that the last reports of u ended silently. How long it was held, and by what gateway, is that of the
// newest of them; of several, of the one that came first.
func (w *world) fellSilent(u *user, ended []*report) {
	u.silent, u.silentFrom, u.silentDevice = true, 0, ended[0].device
	for _, r := range ended {
		u.silentDevice = min(u.silentDevice, r.device)
		if r.vouched() > u.silentFrom {
			u.silentFrom, u.held, u.lost = r.vouched(), w.leaves(u, r)-w.presentUntil(u, r), ongoing
			if w.cohort(u, r) {
				u.lost = r.life.end
			}
		}
	}
}

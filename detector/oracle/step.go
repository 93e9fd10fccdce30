package oracle

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// evaluate publishes everything that is due at limits up to x, for all users, in
// order of limit. At one instant the limits of users come before releases.
func (w *world) evaluate(x millis) {
	first := len(w.out)
	for {
		earliest := never
		for _, u := range w.users {
			earliest = min(earliest, w.next(u, true))
		}
		if len(w.queue) > 0 && w.queue[0].release < earliest {
			if w.queue[0].release > x {
				break
			}
			w.letGo()
			continue
		}
		if earliest > x {
			break
		}
		w.stepAll(earliest)
	}
	slices.SortStableFunc(w.out[first:], func(a, b schemas.Transition) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.User, b.User), cmp.Compare(a.Version, b.Version))
	})
}

// stepAll does all that is due at limit, for all users; then those who have become
// due to be let go get their places.
func (w *world) stepAll(limit millis) {
	for again := true; again; {
		again = false
		for _, id := range w.ids() {
			if u := w.users[id]; w.next(u, true) == limit {
				w.step(u, limit, true)
				again = true // one limit may bring another of the same instant
			}
		}
	}
	for _, id := range w.ids() {
		u := w.users[id]
		slices.SortFunc(u.devices, func(a, b *device) int { return cmp.Compare(a.id, b.id) })
		for _, d := range u.devices {
			if d.queued && !d.placed {
				w.join(u, d)
			}
		}
	}
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

// lookAhead publishes what u alone has due at limits up to p.
func (w *world) lookAhead(u *user, p millis) {
	for limit := w.next(u, false); limit <= p; limit = w.next(u, false) {
		w.step(u, limit, false)
	}
}

// step does all that is due for u at limit.
func (w *world) step(u *user, limit millis, joins bool) {
	var causes []schemas.DeviceID // the devices whose limit it is
	if u.state == schemas.Online && len(u.devices) > 0 && w.idleLimit(u) == limit {
		for _, d := range u.devices {
			if w.activeUntil(d) == limit {
				causes = append(causes, d.id)
			}
		}
	}
	offlineDevice := u.silentDevice
	if !u.silent {
		offlineDevice = u.lastBye().device
	}

	var gone []*device
	for _, d := range u.devices {
		switch {
		case !d.cohort && w.presentUntil(d) == limit && w.lostAt(d.gateway, limit):
			d.cohort = true
		case !d.cohort && w.presentUntil(d) == limit:
			gone = append(gone, d)
		case d.cohort && !d.queued && joins && w.due(d) == limit:
			d.queued = true
		}
	}
	for _, d := range gone {
		u.remove(d)
		causes = append(causes, d.id)
	}
	if len(gone) > 0 && len(u.devices) == 0 {
		u.silent, u.silentFrom, u.held, u.silentDevice = true, 0, 0, gone[0].id
		for _, d := range gone {
			u.silentDevice = min(u.silentDevice, d.id)
			u.silentFrom = max(u.silentFrom, d.seen)
		}
	}

	if len(causes) == 0 {
		causes = append(causes, offlineDevice)
	}
	w.judge(u, limit, w.wall(limit), reason{device: slices.Min(causes)})
	u.byes = slices.DeleteFunc(u.byes, func(b bye) bool { return w.byeLimit(b) == limit })
	w.forget(u)
}

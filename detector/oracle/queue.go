package oracle

import "github.com/stillhere/stillhere/schemas"

// place is the place of a device in the queue of those that are let go.
type place struct {
	user    schemas.UserID
	device  *device // a report makes another one of it, so its place is empty then
	release millis
}

// join gives d the next place. Who calls sees to the order.
func (w *world) join(u *user, d *device) {
	d.placed = true
	step := (1_000_000 + w.cohortRate - 1) / w.cohortRate
	w.lastRelease = max(int64(w.due(d))*1000, w.lastRelease+step) // microseconds
	release := millis((w.lastRelease + 999) / 1000)
	w.queue = append(w.queue, place{u.id, d, release})
}

// letGo does the first release of the queue.
func (w *world) letGo() {
	p := w.queue[0]
	w.queue = w.queue[1:]
	u := w.users[p.user]
	if u == nil || u.device(p.device.id) != p.device {
		return
	}
	u.remove(p.device)
	if len(u.devices) == 0 {
		u.silent, u.silentFrom, u.silentDevice = true, p.device.seen, p.device.id
		u.held = p.release - w.presentUntil(p.device)
	}
	w.judge(u, p.release, w.wall(p.release), reason{device: p.device.id, letGo: true})
	w.forget(u)
}

package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// maxCaused is how many transitions of one user a record may cause before its rows
// are ignored: a row and what is due before it cause at most a dozen, and the
// ordinals of versions end at 4,095.
const maxCaused = 4000

// row applies one beat or bye.
func (w *world) row(row schemas.Beat, through *life) {
	u := w.user(row.User)
	if u == nil || w.caused[row.User] >= maxCaused {
		return
	}
	b := w.now - row.Age
	w.lookAhead(u, w.presence(b))
	// It may have been forgotten just now.
	u = w.user(row.User)
	why := reason{device: row.Device, row: true}
	counts := false
	switch over := w.presence(b)+w.present <= w.x; {
	case over:
	case row.Bye:
		counts = w.bye(u, row.Device, b, through)
	default:
		counts = w.beat(u, row, b, through, &why)
	}
	if counts {
		u.lastSeen = max(u.lastSeen, b)
		w.judge(u, w.presence(b), b, why)
	}
	w.forget(u)
}

// beat changes u's reports by a beat; false when it changes nothing.
func (w *world) beat(u *user, row schemas.Beat, b schemas.Millis, through *life, why *reason) bool {
	known := u.of(row.Device)
	for _, r := range known {
		if r.life == through && b < r.seen {
			return false
		}
	}
	for _, said := range u.byes {
		if said.device == row.Device && (said.life == through || said.life == nil) && b < said.time {
			return false
		}
	}
	if w.tooOld(u, row.Device, b, through) {
		return false
	}
	for _, r := range known {
		if r.life == through || w.leftBehind(r, b) {
			// A newer report replaces what an older one said of idleness. A place that it has in
			// the queue is empty from here on.
			u.end(r, false)
		}
	}
	u.forgetBye(row.Device, through)
	switch {
	case len(known) == 0:
		why.evicted = len(w.evict(u, w.policy.MaxDevices-1)) > 0
	case len(u.of(row.Device)) == 4:
		u.end(oldest(u.of(row.Device)), true)
	}
	u.reports = append(u.reports, &report{device: row.Device, kind: row.Kind, seen: b, idle: row.Idle, life: through})
	u.dirty = u.dirty || u.silent
	u.silent, u.held, u.drained = false, 0, false
	why.active = w.idleAfter == 0 || millis(row.Idle) < w.idleAfter
	return true
}

// tooOld tells whether there is no room for a report because it would be the first to go.
func (w *world) tooOld(u *user, device schemas.DeviceID, b schemas.Millis, through *life) bool {
	known := u.of(device)
	if len(known) == 0 {
		newest := u.devices()
		_, goes := smallest(newest)
		return len(newest) >= w.policy.MaxDevices && (b < newest[goes] || b == newest[goes] && device < goes)
	}
	var stay []*report
	for _, r := range known {
		if r.life != through && !w.leftBehind(r, b) {
			stay = append(stay, r)
		}
	}
	return len(stay) == 4 && b < oldest(stay).seen
}

// devices are the devices that are here, and when they were heard last. What is presumed
// is no device.
func (u *user) devices() map[schemas.DeviceID]schemas.Millis {
	newest := map[schemas.DeviceID]schemas.Millis{}
	for _, r := range u.reports {
		if r.device != 0 {
			newest[r.device] = max(newest[r.device], r.seen)
		}
	}
	return newest
}

// smallest is the device that was heard longest ago; of several, the one with the smallest
// id.
func smallest(newest map[schemas.DeviceID]schemas.Millis) (seen schemas.Millis, goes schemas.DeviceID) {
	for device, at := range newest {
		if goes == 0 || at < seen || at == seen && device < goes {
			seen, goes = at, device
		}
	}
	return seen, goes
}

// leftBehind tells whether a device that is heard at b through another life leaves r behind.
func (w *world) leftBehind(r *report, b schemas.Millis) bool {
	return r.seen <= b && w.lostAt(r.life, w.presence(w.now))
}

// bye ends reports by a bye, and remembers it. It reports whether one ended.
func (w *world) bye(u *user, device schemas.DeviceID, b schemas.Millis, through *life) bool {
	var ended []*report
	newer := false
	for _, r := range u.of(device) {
		switch {
		case through == nil && r.seen > b:
			newer = true
		case through == nil, r.life == through && r.seen <= b, r.life != through && w.leftBehind(r, b):
			ended = append(ended, r)
		}
	}
	if newer {
		ended = nil
	}
	for _, r := range ended {
		u.end(r, true)
	}
	w.remember(u, bye{device, through, b})
	// A restart could not tell otherwise whether the bye ended something.
	u.dirty = u.dirty || len(ended) > 0
	return len(ended) > 0
}

// remember keeps a bye in place of an earlier one of its device through the same life.
func (w *world) remember(u *user, said bye) {
	for _, known := range u.byes {
		if known.device == said.device && known.life == said.life && known.time >= said.time {
			return
		}
	}
	u.forgetBye(said.device, said.life)
	for len(u.byes) >= w.policy.MaxDevices {
		first := 0
		for i := range u.byes {
			if u.byes[i].time < u.byes[first].time {
				first = i
			}
		}
		if said.time < u.byes[first].time {
			return
		}
		u.byes = slices.Delete(u.byes, first, first+1)
	}
	u.byes = append(u.byes, said)
}

// evict leaves no more devices than most. It returns those that had to go.
func (w *world) evict(u *user, most int) (evicted []schemas.DeviceID) {
	for {
		newest := u.devices()
		if len(newest) <= most {
			return evicted
		}
		_, goes := smallest(newest)
		for _, r := range u.of(goes) {
			u.end(r, true)
		}
		evicted = append(evicted, goes)
	}
}

// oldest is the report with the smallest time, the first of several.
func oldest(reports []*report) *report {
	oldest := reports[0]
	for _, r := range reports {
		if r.seen < oldest.seen {
			oldest = r
		}
	}
	return oldest
}

func (w *world) setVisibility(id schemas.UserID, hidden bool) {
	u := w.user(id)
	if u == nil {
		return
	}
	w.lookAhead(u, w.presence(w.now))
	u = w.user(id)
	if u.hidden != hidden {
		next := u.shown
		next.hidden = hidden
		if !u.waitsOnBye() {
			next.kinds = u.presentKinds()
		}
		w.change(u, w.presence(w.now), next, w.now, reason{row: true}, schemas.VisibilityChange)
	}
	w.forget(u)
}

// reason is why a user is looked at.
type reason struct {
	device  schemas.DeviceID
	active  bool // it reported, and is active by that
	evicted bool // another had to go for it
	letGo   bool // it was let go by the queue ...
	drained bool // ... after its gateway had been drained
	row     bool // the record being applied says so, rather than a limit
}

// judge compares u's state at the presence instant p, which is log time at, with
// what it was.
func (w *world) judge(u *user, p millis, at schemas.Millis, why reason) {
	here := len(u.reports) > 0
	stays := false // online
	if u.state == schemas.Online && here {
		stays = p < w.idleLimit(u)
	}
	next := shown{kinds: u.presentKinds(), hidden: u.hidden}
	switch {
	case here && (why.active || stays):
		next.state = schemas.Online
	case here:
		next.state = schemas.Away
	case u.state == schemas.Offline || p >= w.offlineLimit(u):
		next.state = schemas.Offline
	case u.silent:
		next.state = schemas.Away
	default: // a bye is waited on: state and kinds stay as they were
		return
	}
	switch {
	case next.state != u.state:
		w.change(u, p, next, at, why, cause(u, next.state, why))
	case next.kinds != u.kinds && next.state != schemas.Offline && w.policy.AnnounceDevices:
		w.change(u, p, next, at, why, kindsCause(why))
	}
}

func kindsCause(why reason) schemas.Cause {
	if why.evicted {
		return schemas.DeviceEvicted
	}
	return schemas.DevicesChanged
}

// cause is the rule by which u goes to another state.
func cause(u *user, to schemas.State, why reason) schemas.Cause {
	lost := why.letGo || u.silent && u.held > 0
	switch {
	case u.state == schemas.Offline:
		return schemas.FirstBeat
	case to == schemas.Online:
		return schemas.ActiveAgain
	case len(u.reports) > 0:
		return schemas.Idle
	case lost && u.drained:
		return schemas.GatewayDrained
	case lost:
		return schemas.GatewayLost
	case u.silent:
		return schemas.Silent
	}
	return schemas.Bye
}

// change makes u what next says, and publishes it unless it has to wait.
func (w *world) change(u *user, p millis, next shown, at schemas.Millis, why reason, cause schemas.Cause) {
	at = max(at, u.since)
	if cause == schemas.VisibilityChange && next.hidden && !u.published.hidden {
		w.hide(u, next, at)
		return
	}
	if why.row {
		p = max(p, w.x) // what comes late draws on the bucket now
	}
	if u.waits == nil && (w.policy.FlapBurst == 0 || w.lacks(u, p) <= w.burst) {
		at = max(at, w.lastAt(u))
		w.charge(u, p, next.state != u.state, at)
		u.shown = next
		w.publish(u, at, cause, why.device)
		return
	}
	if u.waits == nil {
		u.waits = &waits{since: u.since}
	}
	u.leftOut++
	u.dirty = true
	if next.state != u.state {
		u.waits.cause, u.waits.device, u.since = cause, why.device, at
	}
	if next.kinds != u.kinds {
		u.waits.kindsAt, u.waits.kindsDevice, u.waits.kindsCause = at, why.device, schemas.DevicesChanged
		if cause == schemas.DeviceEvicted {
			u.waits.kindsCause = cause
		}
	}
	if next.hidden != u.hidden {
		u.waits.visibilityAt = at
	}
	u.shown = next
}

// hide publishes that u is hidden, together with whatever waits.
func (w *world) hide(u *user, next shown, at schemas.Millis) {
	at = max(at, w.lastAt(u))
	if u.waits != nil {
		if u.state != u.published.state {
			u.leftOut--
		}
		w.stopWaiting(u)
	}
	if !w.dropped(u) {
		u.publishedAt = at
	}
	u.shown = next
	w.publish(u, at, schemas.VisibilityChange, 0)
}

// stopWaiting ends the waiting: a state that is as it was published has not changed.
func (w *world) stopWaiting(u *user) {
	if u.state == u.published.state {
		u.since = u.waits.since
	}
	u.waits, u.dirty = nil, true
}

// catchUp publishes what u has become while its changes waited.
func (w *world) catchUp(u *user, p millis) {
	waited := u.waits
	at, cause, device := u.since, waited.cause, waited.device
	if u.hidden != u.published.hidden {
		cause, device = schemas.VisibilityChange, 0
	}
	switch {
	case u.state != u.published.state:
		if u.hidden != u.published.hidden {
			at = max(at, waited.visibilityAt)
		}
	case u.hidden != u.published.hidden:
		at = waited.visibilityAt
	case u.kinds != u.published.kinds && u.state != schemas.Offline && w.policy.AnnounceDevices:
		at, cause, device = waited.kindsAt, waited.kindsCause, waited.kindsDevice
	default:
		w.stopWaiting(u)
		u.published = u.shown
		return
	}
	at = max(at, w.lastAt(u))
	w.charge(u, p, u.state != u.published.state, at)
	w.stopWaiting(u)
	u.leftOut--
	w.publish(u, at, cause, device)
}

// lastAt is at of the newest transition while the bucket is kept, 0 after that.
func (w *world) lastAt(u *user) schemas.Millis {
	if w.dropped(u) {
		return 0
	}
	return u.publishedAt
}

// dropped tells whether the bucket of u was full before anything that can still count.
func (w *world) dropped(u *user) bool {
	return u.bucket == nil || u.waits == nil && w.forgetLimit(u) <= w.x-w.present
}

// charge draws a change at p on u's bucket.
func (w *world) charge(u *user, p millis, changesState bool, at schemas.Millis) {
	lacks := w.lacks(u, p)
	if w.policy.FlapBurst == 0 || lacks == 0 && changesState {
		u.bucket, u.publishedAt = nil, 0
		return
	}
	u.bucket, u.publishedAt = &bucket{w.wall(p), lacks + w.interval}, at
}

// publish emits the transition of u from what was published last to what it is.
func (w *world) publish(u *user, at schemas.Millis, cause schemas.Cause, device schemas.DeviceID) {
	for _, r := range u.reports {
		u.lastActive = max(u.lastActive, r.touched())
	}
	if u.published.state != u.state {
		u.since = at
	}
	w.out = append(w.out, schemas.Transition{
		User: u.id, From: u.published.state, To: u.state, At: at, LastSeen: u.lastSeen, LastActive: u.lastActive, Cause: cause,
		Device: device, Kinds: u.kinds, Visibility: visibility(u.hidden), Policy: w.policy.ID(), LeftOut: uint32(u.leftOut),
		Version: schemas.NewVersion(w.epoch, w.offset-w.base, w.caused[u.id]),
	})
	w.caused[u.id]++
	u.published, u.leftOut, u.dirty = u.shown, 0, true
}

func visibility(hidden bool) schemas.Visibility {
	if hidden {
		return schemas.Nobody
	}
	return schemas.Everyone
}

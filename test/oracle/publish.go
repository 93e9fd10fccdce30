package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// maxCaused is how many transitions of one user a record may cause before its rows are ignored: a
// row and the limits before it cause at most a dozen, and the ordinals of versions end at 4,095.
const maxCaused = 4000

// row applies one row: a beat, a bye, or what has become of a connection.
func (w *world) row(row schemas.Beat, through *life) {
	if row.Lost && !through.own() {
		return
	}
	u := w.user(row.User)
	if u == nil || w.caused[row.User] >= maxCaused {
		return
	}
	b := w.now - row.Age
	w.lookAhead(u, w.presence(b))
	// lookAhead may have forgotten the user.
	u = w.user(row.User)
	why := reason{device: row.Device, kind: row.Kind, row: true}
	counts := false
	if !through.own() {
		row.Connection = 0
	}
	if row.Bye && row.Connection == 0 && through.own() {
		for _, r := range w.about(u, row, b, through) {
			b = max(b, w.wall(w.x-w.of(u).present+1)) // before that it would be over
			w.unhold(u, r, b)
			b = max(b, r.seen)
		}
	}
	switch over := w.presence(b)+w.of(u).present <= w.x; {
	case through.own() && (row.Lost || row.Bye && row.Connection != 0):
		b, counts = w.disconnect(u, row, b, through, over)
	case over || row.Lost:
	case row.Bye:
		ended := slices.DeleteFunc(u.of(row.Device), func(r *report) bool {
			return r.seen > b || !mayEnd(through, r.life)
		})
		counts = w.bye(u, ended, bye{device: row.Device, life: through, time: b})
	default:
		counts = w.beat(u, row, b, through, &why)
	}
	if counts {
		u.lastSeen = max(u.lastSeen, b)
		w.judge(u, w.presence(b), b, why)
	}
	w.forget(u)
}

// beat applies a beat, maybe of a connection, to u's reports. It returns false if the beat changes nothing.
func (w *world) beat(u *user, row schemas.Beat, b schemas.Millis, through *life, why *reason) bool {
	known := u.of(row.Device)
	next := &report{device: row.Device, kind: row.Kind, seen: b, idle: row.Idle, told: b, life: through,
		connection: row.Connection, held: row.Connection != 0}
	var before *report // which next replaces
	for _, r := range known {
		if r.life == through {
			before = r
		}
	}
	if before != nil && row.Connection == 0 {
		next.connection, next.held = before.connection, before.held
	}
	if u.outdated(next, before, b, !next.held) {
		if before != nil && before.held && before.connection == next.connection {
			before.seen = max(before.seen, through.begun) // it is named all the same
			u.lastSeen = max(u.lastSeen, before.seen)
		}
		return false
	}
	if next.held {
		next.seen = max(next.seen, through.begun)
	}
	if w.tooOld(u, next, b) {
		return false
	}
	there := len(u.through(row.Device, through)) > 0
	for _, r := range known {
		if r.life == through || w.leftBehind(r, b, through) {
			// A newer report replaces the idleness of an older one.
			u.end(r, false)
		}
	}
	u.forgetBye(row.Device, through, 0)
	if next.held && before != nil && !before.held && before.connection != 0 && before.connection != next.connection {
		w.remember(u, bye{row.Device, through, before.connection, before.seen})
	}
	if own := u.through(row.Device, through); len(own) == 2 {
		u.end(oldest(own), true)
	}
	if len(u.of(row.Device)) == 4 {
		u.end(oldest(u.of(row.Device)), true)
	}
	if !there {
		why.evicted = len(w.evictOf(u, through, w.policy.MaxDevices-1)) > 0
	}
	if len(known) == 0 {
		why.evicted = len(w.evict(u, 2*w.policy.MaxDevices-1)) > 0 || why.evicted
	}
	u.reports, u.lastSeen = append(u.reports, next), max(u.lastSeen, next.seen)
	u.silent, u.held, u.lost = false, 0, ongoing
	idleAfter := w.of(u).idleAfter
	idle := millis(row.Idle)
	why.active = idleAfter == 0 || next.inUse() || idle < idleAfter && w.touched(next)+idleAfter > w.x
	return true
}

// tooOld reports whether a new report, of a beat at b, would itself be the first to end.
func (w *world) tooOld(u *user, next *report, b schemas.Millis) bool {
	device, through := next.device, next.life
	first := func(newest map[schemas.DeviceID]schemas.Millis, most int) bool {
		seen, goes := smallest(newest)
		return len(newest) >= most && (next.seen < seen || next.seen == seen && device < goes)
	}
	if len(u.of(device)) == 0 && first(u.devices(), 2*w.policy.MaxDevices) ||
		len(u.through(device, through)) == 0 && first(u.devicesOf(through), w.policy.MaxDevices) {
		return true
	}
	goes := func(r *report) bool { return r.life == through || w.leftBehind(r, b, through) }
	stay := slices.DeleteFunc(u.of(device), goes)
	own := slices.DeleteFunc(u.through(device, through), goes)
	return len(stay) == 4 && next.seen < oldest(stay).seen || len(own) == 2 && next.seen < oldest(own).seen
}

// through are the present reports of a device that came through the gateway of a life.
func (u *user) through(device schemas.DeviceID, gateway *life) []*report {
	return slices.DeleteFunc(u.of(device), func(r *report) bool { return !oneGateway(r.life, gateway) })
}

// oneGateway reports whether two lives are of one gateway.
func oneGateway(a, b *life) bool { return a.gateway().id == b.gateway().id }

// devicesOf are the devices that are present through the gateway of a life, and when they were heard there last.
func (u *user) devicesOf(gateway *life) map[schemas.DeviceID]schemas.Millis {
	return heard(slices.DeleteFunc(slices.Clone(u.reports), func(r *report) bool { return !oneGateway(r.life, gateway) }))
}

// devices are the present devices, and when they were heard last.
func (u *user) devices() map[schemas.DeviceID]schemas.Millis { return heard(u.reports) }

// heard are the devices of reports, and when they were heard last. Presumed reports have no device.
func heard(reports []*report) map[schemas.DeviceID]schemas.Millis {
	newest := map[schemas.DeviceID]schemas.Millis{}
	for _, r := range reports {
		if r.device != 0 {
			newest[r.device] = max(newest[r.device], r.seen)
		}
	}
	return newest
}

// gateways are those through which u is present, as one life of each.
func (u *user) gateways() []*life {
	var lives []*life
	for _, r := range u.reports {
		if !slices.ContainsFunc(lives, func(l *life) bool { return oneGateway(l, r.life) }) {
			lives = append(lives, r.life)
		}
	}
	return lives
}

// smallest is the device heard longest ago; of several, the one with the smallest id.
func smallest(newest map[schemas.DeviceID]schemas.Millis) (seen schemas.Millis, goes schemas.DeviceID) {
	for device, at := range newest {
		if goes == 0 || at < seen || at == seen && device < goes {
			seen, goes = at, device
		}
	}
	return seen, goes
}

// leftBehind reports whether a device that is heard at b through another life leaves r behind. One that is heard
// through a gateway, but none of its processes, does not.
func (w *world) leftBehind(r *report, b schemas.Millis, through *life) bool {
	if of := through.gateway(); of.id != "" && of.epoch == 0 {
		return false
	}
	return r.seen <= b && w.lostAt(r.life, w.presence(w.now))
}

// bye ends reports by a bye, and remembers it. It returns whether one ended.
func (w *world) bye(u *user, ended []*report, newest bye) bool {
	for _, r := range u.of(newest.device) {
		left := slices.ContainsFunc(ended, func(own *report) bool { return w.leftBehind(r, own.seen, newest.life) })
		if left && !slices.Contains(ended, r) {
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		u.end(r, true)
	}
	w.remember(u, newest)
	return len(ended) > 0
}

// remember replaces an earlier bye of the same device and connection through the same life.
func (w *world) remember(u *user, newest bye) {
	for _, known := range u.byes {
		if known.device == newest.device && known.life == newest.life && known.connection == newest.connection &&
			known.time >= newest.time {
			return
		}
	}
	u.forgetBye(newest.device, newest.life, newest.connection)
	for len(u.byes) >= w.policy.MaxDevices {
		first := 0
		for i := range u.byes {
			if u.byes[i].time < u.byes[first].time {
				first = i
			}
		}
		if newest.time < u.byes[first].time {
			return
		}
		u.byes = slices.Delete(u.byes, first, first+1)
	}
	u.byes = append(u.byes, newest)
}

// evict removes devices until there are at most most. It returns the removed ones.
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

// evictOf ends reports through the gateway of a life until at most most devices are present through it. It
// returns the devices.
func (w *world) evictOf(u *user, gateway *life, most int) (evicted []schemas.DeviceID) {
	for newest := u.devicesOf(gateway); len(newest) > most; newest = u.devicesOf(gateway) {
		_, goes := smallest(newest)
		for _, r := range u.through(goes, gateway) {
			u.end(r, true)
		}
		evicted = append(evicted, goes)
	}
	return evicted
}

// excess ends what the policy does not allow any more: first of each gateway, then of all.
func (w *world) excess(u *user) (evicted []schemas.DeviceID) {
	for _, gateway := range u.gateways() {
		evicted = append(evicted, w.evictOf(u, gateway, w.policy.MaxDevices)...)
	}
	return append(evicted, w.evict(u, 2*w.policy.MaxDevices)...)
}

// tooMany reports whether the policy does not allow all devices of u.
func (w *world) tooMany(u *user) bool {
	return len(u.reports) > w.policy.MaxDevices && (len(u.devices()) > 2*w.policy.MaxDevices ||
		slices.ContainsFunc(u.gateways(), func(g *life) bool { return len(u.devicesOf(g)) > w.policy.MaxDevices }))
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
	w.setShown(id, func(s *shown) { s.nobody = hidden })
}

// rejudgeKinds judges the kinds of next at p.
func (w *world) rejudgeKinds(u *user, next *shown, p millis) {
	if !u.waitsOnBye() {
		next.kinds = w.kindsAt(u, u.state, p, reason{})
	}
}

// reason is why a user is judged.
type reason struct {
	device  schemas.DeviceID
	kind    schemas.DeviceKind
	active  bool // its row says that it is active
	evicted bool // it replaced another device
	row     bool // because of a row of the record being applied, not of a limit
}

// judge compares u's state at the presence instant p, which is log time at, with its state before.
func (w *world) judge(u *user, p millis, at schemas.Millis, why reason) {
	live := len(u.reports) > 0
	stays := false // online
	if u.state == schemas.Online && live {
		stays = p < w.idleLimit(u)
	}
	next := u.shown
	switch {
	case live && (why.active || stays):
		next.state = schemas.Online
	case live:
		next.state = schemas.Away
	case u.state == schemas.Offline || p >= w.offlineLimit(u):
		next.state = schemas.Offline
	case u.silent:
		next.state = schemas.Away
	default: // a bye is debounced: state and kinds stay
		return
	}
	next.kinds = w.kindsAt(u, next.state, p, why)
	switch {
	case next.state != u.state:
		w.change(u, p, next, at, why, cause(u, u.state, next.state))
	case next.kinds != u.kinds && next.state != schemas.Offline && w.of(u).policy.AnnounceDevices:
		w.change(u, p, next, at, why, kindsCause(why))
	}
}

func kindsCause(why reason) schemas.Cause {
	if why.evicted {
		return schemas.DeviceEvicted
	}
	return schemas.DevicesChanged
}

// cause is the rule by which u changes from a state to another.
func cause(u *user, from, to schemas.State) schemas.Cause {
	switch {
	case from == schemas.Offline:
		return schemas.FirstBeat
	case to == schemas.Online:
		return schemas.ActiveAgain
	case len(u.reports) > 0:
		return schemas.Idle
	case u.lost == byDrain:
		return schemas.GatewayDrained
	case u.lost != ongoing:
		return schemas.GatewayLost
	case u.silent:
		return schemas.Silent
	}
	return schemas.Bye
}

// earliest is the instant before which no change of u may be: that of the last one, of a show, or of a lossy restart.
func (w *world) earliest(u *user) schemas.Millis {
	return max(u.since, w.shown[u.id], u.publishedAt, w.restartedAt)
}

// change applies next to u, and publishes it unless it has to wait.
func (w *world) change(u *user, p millis, next shown, at schemas.Millis, why reason, cause schemas.Cause) {
	at = max(at, w.earliest(u))
	if why.row {
		at = max(at, w.decided())
	}
	if less := next.override.LastSeen > u.published.override.LastSeen; less || next.hidden() && !u.published.hidden() {
		w.hide(u, next, at, cause)
		return
	}
	if why.row {
		p = max(p, w.x) // a late row draws on the bucket now
	}
	if !u.waits && (w.policy.FlapBurst == 0 || w.lacks(u, p) <= w.burst) {
		w.charge(u, p, u.turned(next))
		u.shown = next
		w.publish(u, at, cause, why.device)
		return
	}
	u.waits, u.leftOut, u.shown = true, u.leftOut+1, next
}

// hide publishes that others see less of u, together with the waiting changes.
func (w *world) hide(u *user, next shown, at schemas.Millis, cause schemas.Cause) {
	if u.waits && u.published.turned(next) {
		u.leftOut--
	}
	if u.published.hidden() || !next.hidden() {
		cause = u.published.askedFor(next)
	}
	u.waits, u.shown = false, next
	w.publish(u, at, cause, 0)
}

// catchUp publishes at the presence instant p, which is log time at, what u has become while its changes waited.
func (w *world) catchUp(u *user, p millis, at schemas.Millis) {
	u.waits = false
	before, changed := u.published, schemas.DevicesChanged
	switch {
	case u.override != before.override || u.nobody != before.nobody:
		changed = before.askedFor(u.shown)
	case u.state != before.state:
		changed = cause(u, before.state, u.state)
	case u.kinds == before.kinds || u.state == schemas.Offline || !w.of(u).policy.AnnounceDevices:
		u.shown = u.published
		return
	}
	w.charge(u, p, before.turned(u.shown))
	u.leftOut--
	w.publish(u, max(at, w.earliest(u)), changed, 0)
}

// lateRows is how late a row may be and still change its user at its own time.
const lateRows millis = 60_000

// decided is the instant up to which no row changes a user any more.
func (w *world) decided() schemas.Millis { return w.wall(w.x - lateRows) }

// forgetInstants forgets the newest change of u when no row can lie before it.
func (w *world) forgetInstants(u *user) {
	if u.waits {
		return
	}
	decided := w.wall(w.reached - lateRows)
	if u.publishedAt <= max(u.since, decided) {
		u.publishedAt = 0
	}
	if u.state == schemas.Offline && !u.hidden() && u.since <= decided {
		u.since = 0
	}
}

// charge draws a change at p on u's bucket.
func (w *world) charge(u *user, p millis, changesState bool) {
	lacks := w.lacks(u, p)
	if w.policy.FlapBurst == 0 || lacks == 0 && changesState {
		u.bucket = nil
		return
	}
	u.bucket = &bucket{w.wall(p), lacks + w.interval}
}

// publish emits the transition of u from what was published last to its current state.
func (w *world) publish(u *user, at schemas.Millis, cause schemas.Cause, device schemas.DeviceID) {
	if u.published.turned(u.shown) {
		u.since = at
	}
	t := w.emit(u, u.shown, at, cause)
	t.From, t.Device, t.LeftOut = u.published.seen(), device, uint32(u.leftOut)
	if u.hidden() != u.published.hidden() {
		delete(w.shown, u.id)
		if !u.hidden() {
			w.shown[u.id] = at
		}
	}
	u.published, u.publishedAt, u.leftOut, u.dirty = u.shown, at, 0, true
}

// emit emits a transition of u that leaves it as seen.
func (w *world) emit(u *user, seen shown, at schemas.Millis, cause schemas.Cause) *schemas.Transition {
	for _, r := range u.reports {
		if u.lastActive = max(u.lastActive, r.touched()); r.inUse() {
			u.lastSeen = max(u.lastSeen, r.vouched())
		}
	}
	w.out = append(w.out, schemas.Transition{
		User: u.id, From: seen.seen(), To: seen.seen(), At: at, LastSeen: u.lastSeen, LastActive: u.lastActive,
		Cause: cause, Kinds: seen.seenKinds(), Visibility: visibility(seen.hidden()), Policy: w.of(u).policy.ID(),
		Name: w.names[u.id], Override: w.published(u, seen), Version: schemas.NewVersion(w.epoch, w.offset-w.base, w.caused[u.id]),
	})
	w.caused[u.id]++
	t := &w.out[len(w.out)-1]
	if show, ok := w.shown[u.id]; ok && cause != schemas.Erased {
		for _, known := range []*schemas.Millis{&t.LastSeen, &t.LastActive} {
			if *known != 0 && *known < show {
				*known = show
			}
		}
	}
	return t
}

func visibility(hidden bool) schemas.Visibility {
	if hidden {
		return schemas.Nobody
	}
	return schemas.Everyone
}

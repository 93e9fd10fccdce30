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
	if w.apply(u, row, b, through) {
		u.lastSeen = max(u.lastSeen, b)
		beats := u.device(row.Device)
		active := beats != nil && w.presence(b) < w.activeUntil(beats)
		w.judge(u, w.presence(b), b, reason{device: row.Device, active: active})
	}
	w.forget(u)
}

// apply changes u's devices by a report; false when it changes nothing.
func (w *world) apply(u *user, row schemas.Beat, b schemas.Millis, through *life) bool {
	d := u.device(row.Device)
	if d != nil && b < d.seen {
		return false
	}
	if row.Bye {
		if d == nil {
			return false
		}
		u.remove(d)
		u.byes = append(u.byes, bye{row.Device, b})
		return true
	}
	if said, remembered := u.saidBye(row.Device); remembered && b < said {
		return false
	}
	over := w.presence(b)+w.present <= w.x
	if over && d == nil {
		return false
	}
	if over {
		through = nil // no cohort for it
	}
	u.forgetBye(row.Device)
	// Not by remove: a newer report replaces what an older one said of idleness.
	// A place that the device has in the queue is empty from here on.
	u.devices = slices.DeleteFunc(u.devices, func(other *device) bool { return other == d })
	u.devices = append(u.devices, &device{id: row.Device, kind: row.Kind, seen: b, idle: row.Idle, gateway: through})
	u.silent = false
	return true
}

func (w *world) setVisibility(id schemas.UserID, hidden bool) {
	u := w.user(id)
	if u == nil {
		return
	}
	w.lookAhead(u, w.presence(w.now))
	u = w.user(id)
	if u.hidden != hidden {
		u.hidden = hidden
		kinds := u.presentKinds()
		if u.waitsOnBye() {
			kinds = u.kinds
		}
		w.publish(u, u.state, kinds, w.now, schemas.VisibilityChange, 0)
	}
	w.forget(u)
}

// reason is why a user is looked at.
type reason struct {
	device schemas.DeviceID
	active bool // it reported, and is active by that
	letGo  bool // it was let go by the queue
}

// judge compares u's state at the presence instant p, which is log time at, with
// what was published, and publishes the difference.
func (w *world) judge(u *user, p millis, at schemas.Millis, why reason) {
	here := len(u.devices) > 0
	stays := false // online
	if u.state == schemas.Online && here {
		stays = p < w.idleLimit(u)
	}
	var state schemas.State
	switch {
	case here && (why.active || stays):
		state = schemas.Online
	case here:
		state = schemas.Away
	case u.state == schemas.Offline || p >= w.offlineLimit(u):
		state = schemas.Offline
	case u.silent:
		state = schemas.Away
	default: // a bye is waited on: state and kinds stay as they were
		return
	}
	kinds := u.presentKinds()
	switch {
	case state != u.state:
		w.publish(u, state, kinds, at, cause(u, state, why), why.device)
	case kinds != u.kinds && state != schemas.Offline && w.announce:
		w.publish(u, state, kinds, at, schemas.DevicesChanged, why.device)
	}
}

// cause is the rule by which u goes to another state.
func cause(u *user, to schemas.State, why reason) schemas.Cause {
	switch {
	case u.state == schemas.Offline:
		return schemas.FirstBeat
	case to == schemas.Online:
		return schemas.ActiveAgain
	case len(u.devices) > 0:
		return schemas.Idle
	case why.letGo || u.silent && u.held > 0:
		return schemas.GatewayLost
	case u.silent:
		return schemas.Silent
	}
	return schemas.Bye
}

func (w *world) publish(u *user, to schemas.State, kinds schemas.KindSet, at schemas.Millis, cause schemas.Cause, device schemas.DeviceID) {
	at = max(at, u.since)
	for _, d := range u.devices {
		u.lastActive = max(u.lastActive, d.touched())
	}
	visibility := schemas.Everyone
	if u.hidden {
		visibility = schemas.Nobody
	}
	w.out = append(w.out, schemas.Transition{
		User: u.id, From: u.state, To: to, At: at, LastSeen: u.lastSeen, LastActive: u.lastActive, Cause: cause,
		Device: device, Kinds: kinds, Visibility: visibility, Policy: w.policy,
		Version: schemas.NewVersion(w.logEpoch, w.offset, w.caused[u.id]),
	})
	w.caused[u.id]++
	if to != u.state {
		u.since = at
	}
	u.state, u.kinds = to, kinds
}

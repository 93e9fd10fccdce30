package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// report is the newest report of a present device through one gateway.
type report struct {
	device schemas.DeviceID // 0: presumed
	kind   schemas.DeviceKind
	seen   schemas.Millis // time of the newest beat
	idle   schemas.Millis // by the row at told
	told   schemas.Millis
	life   *life // through which it came, nil for none

	connection schemas.ConnectionID // 0: none
	held       bool                 // the connection is open; false with a connection: it was lost
}

// inUse reports whether the person uses the device as long as its gateway is heard.
func (r *report) inUse() bool { return r.held && r.idle == 0 }

// resumed is when the gateway of r was heard again after its loss; 0: never.
func (r *report) resumed() schemas.Millis {
	if r.life == nil {
		return 0
	}
	return r.life.resumed
}

// vouched is seen, or the last frame of the gateway that holds the device.
func (r *report) vouched() schemas.Millis {
	if r.held {
		return max(r.seen, r.life.heard)
	}
	return r.seen
}

// touched is when the person last touched the device; 0: not known.
func (r *report) touched() schemas.Millis {
	switch {
	case r.inUse():
		return r.vouched()
	case r.seen-(r.told-r.idle) >= schemas.MaxIdle:
		return 0
	}
	return r.told - r.idle
}

// bye is a remembered bye.
type bye struct {
	device     schemas.DeviceID
	life       *life
	connection schemas.ConnectionID // 0: none
	time       schemas.Millis
}

// user is what is known of a user.
type user struct {
	id schemas.UserID

	shown            // as the rules judge it
	published  shown // the same unless changes wait
	since      schemas.Millis
	lastActive schemas.Millis // of the newest transition, or of a report that has left since
	lastSeen   schemas.Millis
	reports    []*report // the present ones, in the order in which their newest beats came
	byes       []bye     // in the order in which they came

	// Without a report: whether the last one ended silently, and then, of those that ended last,
	// the newest beat, how long they had been held, how their gateway had ended, and the smallest
	// device.
	silent       bool
	silentFrom   schemas.Millis
	held         millis
	lost         ending
	silentDevice schemas.DeviceID

	// The limit on changes.
	bucket      *bucket
	publishedAt schemas.Millis // at of the newest transition, while a change could lie before it; 0 after that
	leftOut     int
	waits       bool // changes wait: since is that of the published state

	unsureSince schemas.Millis // as the status says; 0: it does not

	dirty bool // the status is to be written
}

// bucket is what the bucket lacked at the log time at.
type bucket struct {
	at    schemas.Millis
	lacks millis
}

// of are the present reports of a device.
func (u *user) of(device schemas.DeviceID) []*report {
	var reports []*report
	for _, r := range u.reports {
		if r.device == device {
			reports = append(reports, r)
		}
	}
	return reports
}

// end removes a report. With leaves, what is known of it counts for lastSeen and lastActive.
func (u *user) end(ended *report, leaves bool) {
	if leaves {
		u.lastSeen, u.lastActive = max(u.lastSeen, ended.vouched()), max(u.lastActive, ended.touched())
	}
	u.reports = slices.DeleteFunc(u.reports, func(r *report) bool { return r == ended })
}

// forgetBye forgets the bye of a device and connection through a life.
func (u *user) forgetBye(device schemas.DeviceID, through *life, connection schemas.ConnectionID) {
	u.byes = slices.DeleteFunc(u.byes, func(b bye) bool {
		return b.device == device && b.life == through && b.connection == connection
	})
}

// lastBye is the remembered bye with the greatest time; of several, that of the device with the
// smallest id. The zero bye if none is remembered.
func (u *user) lastBye() bye {
	var last bye
	for _, b := range u.byes {
		if b.time > last.time || b.time == last.time && b.device < last.device {
			last = b
		}
	}
	return last
}

// kindsAt are the kinds of u, in a state at p, and which of them are active.
func (w *world) kindsAt(u *user, state schemas.State, p millis, why reason) schemas.KindSet {
	var kinds, inUse, kept schemas.KindSet
	for _, r := range u.reports {
		kinds = kinds.With(r.kind)
		if state != schemas.Online || w.activeUntil(u, r) <= p {
			continue
		}
		inUse = inUse.With(r.kind)
		if u.isActive(r.kind) || r.inUse() || why.active && why.kind == r.kind {
			kept = kept.With(r.kind)
		}
	}
	if kept == 0 || !w.of(u).policy.AnnounceDevices {
		kept = inUse
	}
	return kinds.WithActiveOf(kept)
}

// isActive reports whether a kind was active as judged last.
func (u *user) isActive(kind schemas.DeviceKind) bool {
	return slices.Contains(u.kinds.Active().Append(nil), kind)
}

// waitsOnBye reports whether the user has no device and the bye of the last one is debounced.
func (u *user) waitsOnBye() bool {
	return len(u.reports) == 0 && !u.silent && u.state != schemas.Offline
}

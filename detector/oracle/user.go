package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// device is a device that is present.
type device struct {
	id      schemas.DeviceID
	kind    schemas.DeviceKind
	seen    schemas.Millis // time of its newest report
	idle    schemas.Millis // as that report said
	gateway *life          // through which it came, nil for none
	cohort  bool           // kept for the reconnect window, because gateway was lost
	queued  bool           // the window is over; it waits to be let go ...
	placed  bool           // ... at its place in the queue
}

// touched is when the person last touched the device.
func (d *device) touched() schemas.Millis { return d.seen - d.idle }

// bye is a remembered bye.
type bye struct {
	device schemas.DeviceID
	time   schemas.Millis
}

// user is what is known of a user.
type user struct {
	id schemas.UserID
	// What was published last.
	state      schemas.State
	kinds      schemas.KindSet
	since      schemas.Millis
	lastActive schemas.Millis // or what a device knew that has left since

	hidden   bool
	lastSeen schemas.Millis
	devices  []*device // the present ones
	byes     []bye

	// Without a device: whether the last one went silently, and then the newest
	// report of the ones that went last, how long they had been held, and the
	// smallest of their ids.
	silent       bool
	silentFrom   schemas.Millis
	held         millis
	silentDevice schemas.DeviceID
}

func (u *user) device(id schemas.DeviceID) *device {
	for _, d := range u.devices {
		if d.id == id {
			return d
		}
	}
	return nil
}

func (u *user) remove(gone *device) {
	u.lastActive = max(u.lastActive, gone.touched())
	u.devices = slices.DeleteFunc(u.devices, func(d *device) bool { return d == gone })
}

// saidBye is the remembered bye of a device; false if there is none.
func (u *user) saidBye(id schemas.DeviceID) (schemas.Millis, bool) {
	for _, b := range u.byes {
		if b.device == id {
			return b.time, true
		}
	}
	return 0, false
}

func (u *user) forgetBye(id schemas.DeviceID) {
	u.byes = slices.DeleteFunc(u.byes, func(b bye) bool { return b.device == id })
}

// lastBye is the remembered bye with the greatest time; of several, that of the
// device with the smallest id. The zero bye if none is remembered.
func (u *user) lastBye() bye {
	var last bye
	for _, b := range u.byes {
		if b.time > last.time || b.time == last.time && b.device < last.device {
			last = b
		}
	}
	return last
}

func (u *user) presentKinds() schemas.KindSet {
	var kinds schemas.KindSet
	for _, d := range u.devices {
		kinds = kinds.With(d.kind)
	}
	return kinds
}

// waitsOnBye tells whether the user has no device, the last one said bye, and
// that has not been published yet.
func (u *user) waitsOnBye() bool {
	return len(u.devices) == 0 && !u.silent && u.state != schemas.Offline
}

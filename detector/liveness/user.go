package liveness

import "github.com/stillhere/stillhere/schemas"

// phase is where a device stands.
type phase uint8

const (
	present phase = iota // here
	held                 // in the cohort of a lost gateway: given the reconnect window
	queued               // the window is over: waits to be let go
	gone                 // said bye, which is remembered for a while
)

// device is one device of a user, decoded.
type device struct {
	id      schemas.DeviceID
	kind    schemas.DeviceKind
	phase   phase
	gateway uint16         // life of a gateway, 0 = none
	seen    schemas.Millis // time of the newest report
	active  schemas.Millis // when the person last touched it, by that report
}

func (d *device) here() bool { return d.phase != gone }

// user is everything about one user, decoded, for the rules to work on.
type user struct {
	id         schemas.UserID
	state      schemas.State   // as published
	kinds      schemas.KindSet // as published
	hidden     bool
	since      schemas.Millis // at of the last change of state
	lastSeen   schemas.Millis
	lastActive schemas.Millis // as published, or of a device that left
	// silentFrom is set when no device is here and the last one fell silent: its
	// newest report.
	silentFrom schemas.Millis
	held       schemas.Millis // how much longer than by the settings it was kept
	last       schemas.DeviceID
	devices    []device
	// dirty: something changed that neither a transition nor the replay of
	// heartbeats would restore.
	dirty bool
}

// anyHere tells whether some device is here.
func (u *user) anyHere() bool {
	for i := range u.devices {
		if u.devices[i].here() {
			return true
		}
	}
	return false
}

// find returns the device of that id, nil if there is none.
func (u *user) find(id schemas.DeviceID) *device {
	for i := range u.devices {
		if u.devices[i].id == id {
			return &u.devices[i]
		}
	}
	return nil
}

// drop removes device i.
func (u *user) drop(i int) {
	last := len(u.devices) - 1
	u.devices[i] = u.devices[last]
	u.devices = u.devices[:last]
}

// presentKinds is the set of kinds of the devices that are here.
func (u *user) presentKinds() schemas.KindSet {
	var kinds schemas.KindSet
	for i := range u.devices {
		if u.devices[i].here() {
			kinds = kinds.With(u.devices[i].kind)
		}
	}
	return kinds
}

// touched is the greatest of what was published of the person's last touch and
// what the devices that are here say.
func (u *user) touched() schemas.Millis {
	touched := u.lastActive
	for i := range u.devices {
		if d := &u.devices[i]; d.here() && d.active > touched {
			touched = d.active
		}
	}
	return touched
}

// visibility is the wire's word for hidden.
func (u *user) visibility() schemas.Visibility {
	if u.hidden {
		return schemas.Nobody
	}
	return schemas.Everyone
}

// simple tells whether the user fits in an entry.
func (u *user) simple() bool {
	switch len(u.devices) {
	case 0:
		return u.held == 0 && u.lastSeen == u.silentFrom
	case 1:
		d := &u.devices[0]
		return u.silentFrom == 0 && d.seen == u.lastSeen && (d.phase == present || d.phase == gone)
	}
	return false
}

// reset makes u a user of whom nothing is known.
func (u *user) reset(id schemas.UserID) {
	*u = user{id: id, state: schemas.Offline, devices: u.devices[:0]}
}

// copyTo copies u into v without sharing devices.
func (u *user) copyTo(v *user) {
	devices := append(v.devices[:0], u.devices...)
	*v = *u
	v.devices = devices
}

// load decodes entry e into u.
func (m *Machine) load(e uint32, u *user) {
	h := m.store.hot(e)
	if h.flags&flagMany != 0 {
		m.many[e].copyTo(u)
		return
	}
	c := m.store.cold(e)
	u.reset(h.user)
	u.state, u.kinds, u.hidden = h.flags.state(), h.flags.kinds(), h.flags&flagHidden != 0
	u.since, u.lastActive = m.past(c.since), m.past(c.lastActive)
	u.lastSeen = m.past(h.seen)
	if h.flags&(flagPresent|flagBye) == 0 {
		u.silentFrom, u.last = u.lastSeen, h.device
		return
	}
	d := device{id: h.device, kind: h.flags.kind(), phase: present, gateway: h.gateway, seen: u.lastSeen, active: m.past(h.active)}
	if h.flags&flagBye != 0 {
		d.phase = gone
	}
	u.devices = append(u.devices, d)
}

// save encodes u into entry e and arms its timer; a user of whom nothing needs to
// be known is forgotten. timer tells whether the entry's timer still waits.
func (m *Machine) save(e uint32, u *user, timer bool) {
	if u.forgettable() {
		m.forget(e, u)
		return
	}
	h, c := m.store.hot(e), m.store.cold(e)
	f := flags(u.state)&flagState | flags(u.kinds>>1)<<shiftKinds&flagKinds
	if u.hidden {
		f |= flagHidden
	}
	c.since, c.lastActive = stampOf(u.since), stampOf(u.lastActive)
	h.seen, h.device = stampOf(u.lastSeen), u.last
	if !u.simple() {
		f |= flagMany
		kept := m.many[e]
		if kept == nil {
			kept = new(user)
			m.many[e] = kept
		}
		u.copyTo(kept)
	} else {
		if h.flags&flagMany != 0 {
			delete(m.many, e)
		}
		if len(u.devices) == 1 {
			d := &u.devices[0]
			h.active, h.device, h.gateway = stampOf(d.active), d.id, d.gateway
			f |= flags(d.kind) << shiftKind & flagKind
			if d.phase == gone {
				f |= flagBye
			} else {
				f |= flagPresent
			}
		}
	}
	h.flags = f
	m.arm(e, u, timer)
}

// forgettable tells whether u needs no entry: offline, and no bye remembered.
func (u *user) forgettable() bool {
	return u.state == schemas.Offline && len(u.devices) == 0
}

// forget frees entry e of u. One who hides is kept in a side table, where times
// have all their bits: hiding may last for years.
func (m *Machine) forget(e uint32, u *user) {
	if m.store.hot(e).flags&flagMany != 0 {
		delete(m.many, e)
	}
	m.index.remove(&m.store, hash(u.id), e)
	m.store.remove(e)
	if u.hidden {
		m.hidden[u.id] = hiddenUser{lastSeen: u.lastSeen, lastActive: u.lastActive, since: u.since}
	}
}

// hiddenUser is an offline user whom nobody may see.
type hiddenUser struct{ lastSeen, lastActive, since schemas.Millis }

// enter decodes a user that has no entry into u, and gives it one.
func (m *Machine) enter(id schemas.UserID, u *user) (e uint32) {
	u.reset(id)
	if h, ok := m.hidden[id]; ok {
		u.hidden, u.lastSeen, u.lastActive, u.since = true, h.lastSeen, h.lastActive, h.since
		delete(m.hidden, id)
	}
	e = m.store.add(id)
	m.index.insert(&m.store, hash(id), e)
	return e
}

// past decodes a stamp as the latest instant not after now.
func (m *Machine) past(s stamp) schemas.Millis {
	if s == 0 {
		return 0
	}
	return m.clock.now - schemas.Millis(stamp(m.clock.now)-s)
}

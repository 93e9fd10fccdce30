package liveness

import "github.com/stillhere/stillhere/schemas"

// report is the newest report of one device through one gateway, decoded. A device that is heard
// through several gateways has several reports.
type report struct {
	device schemas.DeviceID // 0: presumed, see presume
	kind   schemas.DeviceKind
	bye    bool   // the device said bye, which is remembered for a while
	held   bool   // its connection is open: see connections.go
	life   uint16 // of the gateway, 0 = none
	// connection is the newest one of the device through that life; of a bye, the one that ended. 0: none.
	connection schemas.ConnectionID
	seen       schemas.Millis // time of the newest report
	active     schemas.Millis // when the person last touched the device, by that report
}

// live reports whether the device is present by r.
func (r *report) live() bool { return !r.bye }

// touched is when the person last touched the device; 0: not known. The greatest idleness that a
// report can state stands for any greater one.
func (r *report) touched() schemas.Millis {
	if r.seen-r.active >= schemas.MaxIdle {
		return 0
	}
	return r.active
}

// user is all that is known of one user, decoded for the rules. State, kinds and hidden are as
// judged by the rules; unless changes wait, also as published.
type user struct {
	id     schemas.UserID
	most   uint16 // at most so many devices are present through one gateway, and twice as many in all; 0: one
	tenant uint8  // by whose policy the user is judged: see tenants; 0: the pipeline's
	state  schemas.State
	kinds  schemas.KindSet
	hidden bool // also while an override makes the user invisible
	// over is what the user asks to be shown as, and LastSeen; nil: neither. It is that of Machine.overrides.
	over       *schemas.Override
	since      schemas.Millis // at of the last change of state
	lastSeen   schemas.Millis
	lastActive schemas.Millis // as published, or of a device that left
	// silentFrom is set if no device is present and the last one fell silent: its newest report.
	silentFrom   schemas.Millis
	releaseDelay schemas.Millis // how much later than presentUntil that device left
	end          ending         // of its gateway, if it was in a cohort
	last         schemas.DeviceID
	reports      []report // in the order in which they came
	flaps        flaps
	// unsureSince is set while the status says that the user is unheard; see unsure.go. unsureEnded: the next
	// status ends it.
	unsureSince schemas.Millis
	unsureEnded bool
	// dirty: the status is to be written.
	dirty bool
}

// present reports whether some device is present.
func (u *user) present() bool {
	for i := range u.reports {
		if u.reports[i].live() {
			return true
		}
	}
	return false
}

// index finds the live report of a device through a life.
func (u *user) index(device schemas.DeviceID, life uint16) int {
	for i := range u.reports {
		if r := &u.reports[i]; r.device == device && r.life == life && r.live() {
			return i
		}
	}
	return -1
}

// remembered finds the bye of a device and a connection through a life.
func (u *user) remembered(device schemas.DeviceID, life uint16, connection schemas.ConnectionID) int {
	for i := range u.reports {
		if r := &u.reports[i]; r.bye && r.device == device && r.life == life && r.connection == connection {
			return i
		}
	}
	return -1
}

// only finds the report of a device that has no other; -1: it has none, or several.
func (u *user) only(device schemas.DeviceID) int {
	found := -1
	for i := range u.reports {
		if u.reports[i].device == device && found >= 0 {
			return -1
		} else if u.reports[i].device == device {
			found = i
		}
	}
	return found
}

// otherKinds reports whether the kinds of u are not those of the present devices, or one in use is not active.
func (u *user) otherKinds() bool {
	var present, used schemas.KindSet
	for i := range u.reports {
		if r := &u.reports[i]; r.live() {
			if present = present.With(r.kind); r.inUse() {
				used = used.With(r.kind)
			}
		}
	}
	return present != u.kinds.Present() || used&^u.kinds.Active() != 0
}

// visibilityOf is the visibility of a user who is hidden or not.
func visibilityOf(hidden bool) schemas.Visibility {
	if hidden {
		return schemas.Nobody
	}
	return schemas.Everyone
}

// simple reports whether the user fits in an entry.
func (u *user) simple(base schemas.Millis) bool {
	if o := u.over; o != nil && (o.Until != 0 || o.State == schemas.SetAway) { // an entry has the state that others see
		return false
	}
	if u.flaps != (flaps{}) || u.kinds != u.kinds.As(u.state) || u.unsureSince != 0 ||
		u.lastSeen != 0 && u.lastSeen < base {
		return false
	}
	switch len(u.reports) {
	case 0:
		return u.end == ongoing && u.lastSeen == u.silentFrom
	case 1:
		r := &u.reports[0]
		return u.silentFrom == 0 && r.device != 0 && r.seen >= base && u.lastSeen == u.seenBy(r)
	}
	return false
}

// seenBy is when u was heard last, by an entry with the report r. Whoever uses a held device was seen when active.
func (u *user) seenBy(r *report) schemas.Millis {
	if r.held {
		return max(r.seen, u.lastActive)
	}
	return r.seen
}

// roomy is a user with room for the reports of most: both are read together.
type roomy struct {
	user
	room [2]report
}

// keep stores a copy of u, and returns its number.
func (m *Machine) keep(u *user) uint32 {
	s := &roomy{user: *u}
	s.reports = append(s.room[:0], u.reports...)
	return m.many.add(s)
}

// stored is the user of an entry with flagMany.
func (m *Machine) stored(h *hot) *user { return &(*m.many.at(h.active)).user }

// reset makes u an unknown user.
func (u *user) reset(id schemas.UserID) {
	*u = user{id: id, state: schemas.Offline, reports: u.reports[:0]}
}

// load decodes entry e into u, or returns the stored user if it does not fit in an entry.
func (m *Machine) load(e uint32, u *user) *user {
	if m.capture != nil {
		m.touch(e)
	}
	h := m.store.hot(e)
	if h.flags&flagMany != 0 {
		u = m.stored(h)
		u.over = m.overrides[h.user]
		m.use(u.tenant)
		return u
	}
	c := m.store.cold(e)
	u.reset(h.user)
	u.over = m.overrides[h.user]
	if h.flags&flagTenant != 0 {
		u.tenant = m.store.tenant(e)
	}
	m.use(u.tenant)
	u.state, u.kinds, u.hidden = h.flags.state(), h.flags.kinds().As(h.flags.state()), h.flags&flagHidden != 0
	active := m.instant(h.active)
	if h.flags&flagOld == 0 {
		u.since, u.lastActive = m.instant(c.since), m.instant(c.lastActive)
	} else {
		o := m.olds.at(c.since)
		u.since, u.lastActive = o.since, o.lastActive
		if h.active == beforeBase {
			active = o.active
		}
	}
	u.lastSeen = m.instant(h.seen)
	if h.flags&(flagPresent|flagBye) == 0 {
		u.silentFrom, u.last = u.lastSeen, h.device
		return u
	}
	r := report{device: h.device, kind: h.flags.kind(), bye: h.flags&flagHeld == flagBye,
		held: h.flags&flagHeld == flagHeld, life: h.life, connection: m.store.connection(e), seen: u.lastSeen, active: active}
	u.lastSeen, u.reports = u.seenBy(&r), append(u.reports, r)
	return u
}

// save encodes u into entry e and arms its timer, or forgets a forgettable user. timer tells
// whether the entry's timer has not fired.
func (m *Machine) save(e uint32, u *user, timer bool) {
	if u.forgettable() {
		m.forget(e, u)
		return
	}
	m.encode(e, u)
	m.arm(e, u, timer)
}

// encode writes u into entry e.
func (m *Machine) encode(e uint32, u *user) {
	h, c := m.store.hot(e), m.store.cold(e)
	f := flags(shownAs(u.over, u.state))&flagState | flags(u.kinds>>1)<<shiftKinds&flagKinds
	if u.hidden {
		f |= flagHidden
	}
	if u.tenant != 0 {
		f |= flagTenant
		m.store.setTenant(e, u.tenant)
	}
	if (h.flags^f)&(flagState|flagKinds|flagHidden) != 0 {
		m.recount(u.id, h.flags, f)
	}
	if !u.simple(m.base) {
		if h.flags&flagOld != 0 {
			m.olds.remove(c.since)
		}
		if h.flags&flagMany == 0 {
			h.active = m.keep(u)
		}
		h.seen, h.device, c.since, c.lastActive = noInstant, 0, noInstant, noInstant
		h.flags = f | flagMany
		return
	}
	if h.flags&flagMany != 0 {
		m.many.remove(h.active)
	}
	h.seen, h.device, h.active = m.stampOf(u.lastSeen), u.last, noInstant
	times := oldTimes{since: u.since, lastActive: u.lastActive}
	if len(u.reports) == 1 {
		r := &u.reports[0]
		times.active = r.active
		h.seen, h.active, h.device, h.life = m.stampOf(r.seen), m.stampOf(r.active), r.device, r.life
		f |= flags(r.kind) << shiftKind & flagKind
		m.store.setConnection(e, r.connection)
		switch {
		case r.bye:
			f |= flagBye
		case r.held:
			f |= flagHeld
		default:
			f |= flagPresent
		}
	}
	m.encodeTimes(h, c, times, &f)
	h.flags = f
}

// encodeTimes writes the times that may lie before the base.
func (m *Machine) encodeTimes(h *hot, c *cold, t oldTimes, f *flags) {
	since, lastActive := m.stampOf(t.since), m.stampOf(t.lastActive)
	isOld := since == beforeBase || lastActive == beforeBase || h.active == beforeBase
	switch {
	case isOld && h.flags&flagOld != 0:
		*m.olds.at(c.since) = t
	case isOld:
		c.since = m.olds.add(t)
	default:
		if h.flags&flagOld != 0 {
			m.olds.remove(c.since)
		}
		c.since = since
	}
	c.lastActive = lastActive
	if isOld {
		*f |= flagOld
	}
}

// forgettable reports whether u needs no entry: offline since an instant that is decided, without a remembered
// bye, a bucket or an override that ends.
func (u *user) forgettable() bool {
	return u.state == schemas.Offline && len(u.reports) == 0 && u.flaps.bucket == (bucket{}) &&
		u.flaps.publishedAt == 0 && (u.since == 0 || u.hidden) && u.flaps.waiting == nil && (u.over == nil || u.over.Until == 0)
}

// forget frees entry e of u. A hidden user moves to a side table, where times have all their bits:
// a user may be hidden for years.
func (m *Machine) forget(e uint32, u *user) {
	m.recount(u.id, m.store.hot(e).flags, 0)
	switch f := m.store.hot(e).flags; {
	case f&flagMany != 0:
		m.many.remove(m.store.hot(e).active)
	case f&flagOld != 0:
		m.olds.remove(m.store.cold(e).since)
	}
	m.index.remove(&m.store, m.index.hash(u.id), e)
	m.store.remove(e)
	if u.hidden {
		m.hidden[u.id] = hiddenUser{lastSeen: u.lastSeen, lastActive: u.lastActive, since: u.since}
	}
	if u.tenant != 0 {
		m.tenants.away[u.id] = u.tenant
	}
}

// hiddenUser is an offline hidden user.
type hiddenUser struct{ lastSeen, lastActive, since schemas.Millis }

// enter decodes a user without an entry into u, and adds an entry.
func (m *Machine) enter(id schemas.UserID, u *user) (e uint32) {
	u.reset(id)
	u.over = m.overrides[id]
	if h, ok := m.hidden[id]; ok {
		u.hidden, u.lastSeen, u.lastActive, u.since = true, h.lastSeen, h.lastActive, h.since
		delete(m.hidden, id)
	}
	if len(m.tenants.away) > 0 {
		u.tenant = m.tenants.away[id]
		delete(m.tenants.away, id)
	}
	m.use(u.tenant)
	e = m.store.add(id)
	if m.capture != nil {
		m.capture.take(e) // it came later
	}
	m.index.insert(&m.store, m.index.hash(id), e)
	return e
}

package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The rules of ../DESIGN.md on one decoded user: the effect of a report.

// maxReports bounds the reports of one device, and maxReportsVia those of them through one gateway.
const maxReports, maxReportsVia = 4, 2

// all is no life: what concerns reports through any gateway.
const all = -1

// report applies a beat or bye of the user of entry e with the time b that came through a life of a gateway.
func (m *Machine) report(e uint32, u *user, beat *schemas.Beat, b schemas.Millis, life uint16) {
	at := m.clock.at(b)
	if armed, counts := m.armedAt(e); !counts || armed <= at || m.mayBeDue(u) {
		// No limit that a look ahead sees is before the timer, but those of devices that armUnheard has not looked at.
		m.lookAhead(u, at)
	}
	if u.state != schemas.Offline {
		m.refill(u)
	}
	why := event{device: beat.Device, row: true}
	if beat.Lost || beat.Bye && (beat.Connection != 0 || m.gateways.holds(life)) {
		if seen, found := m.disconnect(u, beat, b, life); found {
			u.lastSeen = max(u.lastSeen, seen)
			b = max(b, seen, m.notOver())
			at = m.clock.at(b)
		}
	}
	switch over := at+m.presentFor <= m.evaluated; {
	case !over && beat.Lost && beat.Connection != 0:
		m.remember(u, beat.Device, b, life, beat.Connection)
		fallthrough
	case over, beat.Lost, beat.Bye && !m.bye(u, beat, b, life), !beat.Bye && !m.heard(u, beat, b, life, &why):
		m.settleStatus(u)
		return
	case !beat.Bye:
		idle := presence(beat.Idle)
		touched := at - idle
		if beat.Connection != 0 {
			touched = m.clock.at(b - beat.Idle)
		}
		if m.idleAfter == 0 || beat.Connection != 0 && idle == 0 || idle < m.idleAfter && touched+m.idleAfter > m.evaluated {
			why.active = why.active.With(beat.Kind)
		}
	}
	u.lastSeen = max(u.lastSeen, b)
	m.judge(u, at, b, why)
}

// heard adds a beat to u's reports. It returns false if the beat changes nothing.
func (m *Machine) heard(u *user, beat *schemas.Beat, b schemas.Millis, life uint16, why *event) bool {
	r := report{device: beat.Device, kind: beat.Kind, life: life, seen: b, active: b - beat.Idle}
	var before report // of the device through this life
	if i := u.index(beat.Device, life); i >= 0 {
		if before = u.reports[i]; before.held && beat.Connection == 0 {
			beat.Connection = before.connection
		}
		r.connection = before.connection
	}
	if beat.Connection != 0 {
		r = m.open(beat, b, life)
	}
	known, there, reported := false, false, false // the device is present; through this gateway; or it said bye
	for i := range u.reports {
		r := &u.reports[i]
		if r.device != beat.Device {
			continue
		}
		reported = true
		known = known || r.live()
		there = there || r.live() && m.gateways.same(r.life, life)
		if r.life == life && (beat.Connection == 0 && b < r.seen || beat.Connection != 0 && r.stale(beat.Connection, b)) {
			if before.held && before.connection == beat.Connection {
				m.name(u, &u.reports[u.index(beat.Device, life)])
			}
			return false
		}
	}
	if m.tooOld(u, beat.Device, known, there, r.seen, life) {
		return false
	}
	if reported {
		m.endLost(u, beat.Device, b, life)
		if i := u.index(beat.Device, life); i >= 0 {
			m.gateways.returned(&m.clock, &u.reports[i], life)
			m.drop(u, i)
		}
		if i := u.remembered(beat.Device, life, 0); i >= 0 {
			m.drop(u, i)
		}
		if c := before.connection; c != r.connection && c != 0 && !before.held {
			m.remember(u, beat.Device, before.seen, life, c)
		}
	}
	if known {
		m.limitReports(u, beat.Device, int(life), maxReportsVia)
		m.limitReports(u, beat.Device, all, maxReports)
	}
	if !there {
		_, why.evicted = m.evict(u, int(life), m.maxDevices-1)
	}
	if !known {
		_, evicted := m.evict(u, all, 2*m.maxDevices-1)
		why.evicted = why.evicted || evicted
	}
	m.gateways.attach(&r)
	u.lastSeen = max(u.lastSeen, r.seen)
	u.reports, u.most = append(u.reports, r), max(u.most, uint16(m.maxDevices))
	u.silentFrom, u.releaseDelay, u.end, u.last = 0, 0, ongoing, 0
	return true
}

// bye ends the reports of a device, not newer than b, through the gateway of the life: by this epoch
// and earlier ones; with a connection, those of it. What of lost gateways is older than one of these ends, too. The bye
// is remembered in any case. ended reports whether it ended something.
func (m *Machine) bye(u *user, beat *schemas.Beat, b schemas.Millis, life uint16) (ended bool) {
	own, device := schemas.Millis(-1), beat.Device // the newest of those
	speaksFor := func(r *report) bool {
		return r.seen <= b && m.gateways.speaksFor(life, r.life) && (beat.Connection == 0 || beat.Connection == r.connection)
	}
	for i := range u.reports {
		if r := &u.reports[i]; r.device == device && r.live() && speaksFor(r) {
			own = max(own, r.seen)
		}
	}
	for i := len(u.reports) - 1; i >= 0; i-- {
		r := &u.reports[i]
		if r.device != device || !r.live() || !speaksFor(r) && !m.leftBehind(r, own, life) {
			continue
		}
		m.leave(u, r)
		m.gateways.returned(&m.clock, r, life)
		m.drop(u, i)
		ended = true
	}
	m.remember(u, device, b, life, beat.Connection)
	return ended
}

// remember replaces an earlier bye of the device and the connection through the same life.
func (m *Machine) remember(
	u *user, device schemas.DeviceID, b schemas.Millis, life uint16, connection schemas.ConnectionID,
) {
	if i := u.remembered(device, life, connection); i >= 0 {
		if u.reports[i].seen >= b {
			return
		}
		m.drop(u, i)
	}
	if !m.limitByes(u, b) {
		return
	}
	r := report{device: device, bye: true, life: life, connection: connection, seen: b}
	m.gateways.attach(&r)
	u.reports = append(u.reports, r)
}

// tooOld reports whether a new report would itself be the first to be dropped or evicted. known: the device is present;
// there: through the gateway of the life.
func (m *Machine) tooOld(u *user, device schemas.DeviceID, known, there bool, b schemas.Millis, life uint16) bool {
	goes := func(via, most int) bool {
		if len(u.reports) < most {
			return false
		}
		n, oldest, seen := u.devices(&m.gateways, via)
		return n >= most && (b < seen || b == seen && device < oldest)
	}
	if !known && goes(all, 2*m.maxDevices) || !there && goes(int(life), m.maxDevices) {
		return true
	}
	if !known {
		return false
	}
	n, own := 0, 0
	oldest, oldestOwn := schemas.Millis(never), schemas.Millis(never)
	for i := range u.reports {
		r := &u.reports[i]
		if r.device != device || !r.live() || r.life == life || m.leftBehind(r, b, life) {
			continue
		}
		n, oldest = n+1, min(oldest, r.seen)
		if m.gateways.same(r.life, life) {
			own, oldestOwn = own+1, min(oldestOwn, r.seen)
		}
	}
	return n >= maxReports && b < oldest || own >= maxReportsVia && b < oldestOwn
}

// leftBehind reports whether a device that is heard at b through the life now leaves r behind.
func (m *Machine) leftBehind(r *report, b schemas.Millis, now uint16) bool {
	return r.seen <= b && !m.gateways.ofNoProcess(now) && m.gateways.lost(&m.clock, r.life, m.clock.presence())
}

// endLost drops the reports of a device, not newer than b, that came through lost lives: the device
// is heard through another.
func (m *Machine) endLost(u *user, device schemas.DeviceID, b schemas.Millis, life uint16) {
	for i := len(u.reports) - 1; i >= 0; i-- {
		r := &u.reports[i]
		if r.device != device || !r.live() || r.life == life || !m.leftBehind(r, b, life) {
			continue
		}
		m.gateways.returned(&m.clock, r, life)
		m.drop(u, i)
	}
}

// limitReports drops the oldest report of a present device through the gateway of the life via if one more would be
// too many.
func (m *Machine) limitReports(u *user, device schemas.DeviceID, via, most int) {
	n, oldest := 0, -1
	for i := range u.reports {
		if r := &u.reports[i]; r.device == device && r.live() && m.gateways.counts(r, via) {
			if n++; oldest < 0 || r.seen < u.reports[oldest].seen {
				oldest = i
			}
		}
	}
	if n >= most {
		m.leave(u, &u.reports[oldest])
		m.drop(u, oldest)
	}
}

// limitByes drops the oldest remembered byes so that one more fits. It returns false if the new one
// would be the first to be dropped.
func (m *Machine) limitByes(u *user, b schemas.Millis) bool {
	for {
		n, oldest := 0, -1
		for i := range u.reports {
			if r := &u.reports[i]; r.bye {
				if n++; oldest < 0 || r.seen < u.reports[oldest].seen {
					oldest = i
				}
			}
		}
		switch {
		case n < m.maxDevices:
			return true
		case b < u.reports[oldest].seen:
			return false
		}
		m.drop(u, oldest)
	}
}

// evict removes the devices that were heard longest ago through the gateway of the life via, as far as they
// are present there, until there are at most most. It returns whether it removed one, and the smallest id of
// those.
func (m *Machine) evict(u *user, via, most int) (first schemas.DeviceID, evicted bool) {
	if len(u.reports) <= most {
		return 0, false
	}
	for n, oldest, _ := u.devices(&m.gateways, via); n > most; n, oldest, _ = u.devices(&m.gateways, via) {
		if !evicted || oldest < first {
			first = oldest
		}
		for i := len(u.reports) - 1; i >= 0; i-- {
			if r := &u.reports[i]; r.device == oldest && r.live() && m.gateways.counts(r, via) {
				m.leave(u, r)
				m.drop(u, i)
			}
		}
		evicted = true
		m.counts.Evicted++
		if n-1 == most {
			break // the usual case: one was too many
		}
	}
	return first, evicted
}

// evictExcess removes what the policy does not allow any more. It returns the smallest id of the removed
// devices.
func (m *Machine) evictExcess(u *user) (first schemas.DeviceID) {
	for via, most, excess := m.excess(u); excess; via, most, excess = m.excess(u) {
		if id, _ := m.evict(u, via, most); first == 0 || id < first {
			first = id
		}
	}
	return first
}

// excess finds a gateway, or all, through which more devices of u are present than the policy allows.
func (m *Machine) excess(u *user) (via, most int, found bool) {
	if len(u.reports) <= m.maxDevices {
		return 0, 0, false
	}
	for i := range u.reports {
		via := int(u.reports[i].life)
		if n, _, _ := u.devices(&m.gateways, via); n > m.maxDevices {
			return via, m.maxDevices, true
		}
	}
	n, _, _ := u.devices(&m.gateways, all)
	return all, 2 * m.maxDevices, n > 2*m.maxDevices
}

// devices counts the devices that are present through the gateway of the life via, and finds the one heard there
// longest ago; of several, the one with the smallest id. Presumed reports count as no device.
func (u *user) devices(g *gateways, via int) (n int, oldest schemas.DeviceID, oldestSeen schemas.Millis) {
	found, life, severalLives := false, uint16(0), false
	for i := range u.reports {
		r := &u.reports[i]
		if r.device == 0 || !r.live() || !g.counts(r, via) {
			continue
		}
		severalLives = severalLives || found && r.life != life
		life, n = r.life, n+1
		if !found || r.seen < oldestSeen || r.seen == oldestSeen && r.device < oldest {
			found, oldest, oldestSeen = true, r.device, r.seen
		}
	}
	if severalLives {
		return u.devicesOfLives(g, via)
	}
	return n, oldest, oldestSeen // through one life a device has one report
}

// devicesOfLives is devices of a user whose devices may have several reports.
func (u *user) devicesOfLives(g *gateways, via int) (n int, oldest schemas.DeviceID, oldestSeen schemas.Millis) {
	s := g.sorted[:0]
	for i := range u.reports {
		if r := &u.reports[i]; r.device != 0 && r.live() && g.counts(r, via) {
			s = append(s, seenDevice{r.device, r.seen})
		}
	}
	slices.SortFunc(s, func(a, b seenDevice) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(b.seen, a.seen))
	})
	s = slices.CompactFunc(s, func(a, b seenDevice) bool { return a.device == b.device }) // the newest of each
	first := slices.MinFunc(s, func(a, b seenDevice) int { return cmp.Compare(a.seen, b.seen) })
	g.sorted = s
	return len(s), first.device, first.seen
}

// seenDevice is a device, and when it was seen.
type seenDevice struct {
	device schemas.DeviceID
	seen   schemas.Millis
}

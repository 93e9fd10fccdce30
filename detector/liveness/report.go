package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// The rules of ../DESIGN.md, on one decoded user: what a report leads to.

// maxReports bounds through how many gateways one device is known.
const maxReports = 4

// report applies a beat or bye that came in at b through a life of a gateway.
func (m *Machine) report(u *user, beat *schemas.Beat, b schemas.Millis, life uint16) {
	at := m.clock.at(b)
	m.lookAhead(u, at)
	if u.state != schemas.Offline {
		m.refill(u, m.settled())
	}
	why := event{device: beat.Device, row: true}
	switch {
	case at+m.present <= m.evaluated:
		return
	case beat.Bye:
		if !m.bye(u, beat.Device, b, life) {
			return
		}
	case !m.heard(u, beat, b, life, &why):
		return
	default:
		why.active = m.idleAfter == 0 || presence(beat.Idle) < m.idleAfter
	}
	u.lastSeen = max(u.lastSeen, b)
	m.judge(u, at, b, why)
}

// heard puts a beat among u's reports; false when it changes nothing.
func (m *Machine) heard(u *user, beat *schemas.Beat, b schemas.Millis, life uint16, why *event) bool {
	known := false
	for i := range u.reports {
		r := &u.reports[i]
		if r.device != beat.Device {
			continue
		}
		known = known || r.here()
		if (r.life == life || r.phase == gone && r.life == 0) && b < r.seen {
			return false
		}
	}
	m.endLost(u, beat.Device, b, life, nil)
	if i := u.index(beat.Device, life, true); i >= 0 {
		m.gateways.returned(&m.clock, &u.reports[i], life)
		m.drop(u, i)
	}
	if i := u.index(beat.Device, life, false); i >= 0 {
		m.drop(u, i)
	}
	if known {
		m.limitReports(u, beat.Device)
	} else {
		why.evicted = m.evict(u)
	}
	r := report{device: beat.Device, kind: beat.Kind, phase: present, life: life, seen: b, active: b - beat.Idle}
	m.gateways.attach(&r)
	u.reports = append(u.reports, r)
	u.dirty = u.dirty || u.silentFrom != 0
	u.silentFrom, u.held, u.drained = 0, 0, false
	return true
}

// bye ends the report of a device through the gateway that says so, or all of its
// reports when none does; false when there is nothing to end.
func (m *Machine) bye(u *user, device schemas.DeviceID, b schemas.Millis, life uint16) bool {
	ended, oldest := false, b
	end := func(i int) {
		oldest = min(oldest, u.reports[i].seen)
		m.leave(u, &u.reports[i])
		ended = true
	}
	if life == 0 {
		for i := range u.reports {
			if r := &u.reports[i]; r.device == device && r.here() && r.seen > b {
				return false
			}
		}
		for i := len(u.reports) - 1; i >= 0; i-- {
			if r := &u.reports[i]; r.device == device && r.here() {
				end(i)
				m.gateways.returned(&m.clock, r, life)
				m.drop(u, i)
			}
		}
	} else {
		m.endLost(u, device, b, life, end)
		if i := u.index(device, life, true); i >= 0 && u.reports[i].seen <= b {
			end(i)
			m.gateways.returned(&m.clock, &u.reports[i], life)
			m.drop(u, i)
		}
	}
	if !ended {
		return false
	}
	if i := u.index(device, life, false); i >= 0 {
		m.drop(u, i)
	}
	m.limitByes(u)
	if presence(b-oldest) > 0 {
		m.pins.add(b, oldest) // a restart does not look so far back otherwise
	}
	r := report{device: device, phase: gone, life: life, seen: b}
	m.gateways.attach(&r)
	u.reports = append(u.reports, r)
	return true
}

// endLost drops the reports of a device, not newer than b, that came through lives
// which are lost: the device is heard through another. each is told before.
func (m *Machine) endLost(u *user, device schemas.DeviceID, b schemas.Millis, life uint16, each func(i int)) {
	for i := len(u.reports) - 1; i >= 0; i-- {
		r := &u.reports[i]
		if r.device != device || !r.here() || r.life == life || r.seen > b || !m.gateways.lost(&m.clock, r.life, m.clock.presence()) {
			continue
		}
		if each != nil {
			each(i)
		}
		m.gateways.returned(&m.clock, r, life)
		m.drop(u, i)
	}
}

// limitReports makes room for another report of a device that is here.
func (m *Machine) limitReports(u *user, device schemas.DeviceID) {
	n, oldest := 0, -1
	for i := range u.reports {
		if r := &u.reports[i]; r.device == device && r.here() {
			if n++; oldest < 0 || r.seen < u.reports[oldest].seen {
				oldest = i
			}
		}
	}
	if n >= maxReports {
		m.leave(u, &u.reports[oldest])
		m.drop(u, oldest)
	}
}

// limitByes makes room for another remembered bye.
func (m *Machine) limitByes(u *user) {
	n, oldest := 0, -1
	for i := range u.reports {
		if r := &u.reports[i]; r.phase == gone {
			if n++; oldest < 0 || r.seen < u.reports[oldest].seen {
				oldest = i
			}
		}
	}
	if n >= m.maxDevices {
		m.drop(u, oldest)
	}
}

// evict makes room for another device: those that were heard longest ago go. It reports
// whether one had to.
func (m *Machine) evict(u *user) (evicted bool) {
	for {
		n, oldest := u.devices()
		if n < m.maxDevices {
			return evicted
		}
		for i := len(u.reports) - 1; i >= 0; i-- {
			if r := &u.reports[i]; r.device == oldest && r.here() {
				m.leave(u, r)
				m.drop(u, i)
			}
		}
		evicted = true
		m.counts.Evicted++
	}
}

// devices counts the devices that are here, and finds the one that was heard longest
// ago; of several the one with the smallest id. What is presumed is no device.
func (u *user) devices() (n int, oldest schemas.DeviceID) {
	var oldestSeen schemas.Millis
	for i := range u.reports {
		r := &u.reports[i]
		if r.device == 0 || !r.here() || slices.ContainsFunc(u.reports[:i], func(o report) bool { return o.device == r.device && o.here() }) {
			continue
		}
		seen := r.seen
		for _, o := range u.reports[i:] {
			if o.device == r.device && o.here() {
				seen = max(seen, o.seen)
			}
		}
		if n++; n == 1 || seen < oldestSeen || seen == oldestSeen && r.device < oldest {
			oldest, oldestSeen = r.device, seen
		}
	}
	return n, oldest
}

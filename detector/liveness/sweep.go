package liveness

import "github.com/stillhere/stillhere/schemas"

const (
	// maxVisits bounds how many entries one Take looks at. With more users than this allows, a
	// round takes longer than the interval.
	maxVisits = 1 << 14
	// maxFresh bounds how many changed users wait for the next Take; others wait for their turn.
	maxFresh = 1 << 10
	// countsEvery is the time between two Takes with counts, in log time: less than that between two ticks of a quiet
	// partition.
	countsEvery schemas.Millis = 900
)

// Sweep walks over the users of a Machine, all within an interval of log time, and takes the
// present ones who were heard since the round before. It only reads: what it takes depends on
// restarts; no transition does.
type Sweep struct {
	Interval schemas.Millis // 0: it takes no users, only counts

	next    uint32         // entry
	owed    uint64         // entries still to be visited, times Interval
	at      schemas.Millis // of the last Take
	round   schemas.Millis // when this round began
	before  schemas.Millis // when the round before it began
	counted schemas.Millis // when counts were taken last
	more    bool           // entries are due that the last Take did not visit
	fresh   []schemas.UserID
}

// Waits reports whether the next Take has more to do than what its time brings.
func (s *Sweep) Waits() bool { return s.more || len(s.fresh) > 0 }

// Changed makes the next Take return the user, if there are not too many of them.
func (s *Sweep) Changed(t *schemas.Transition) {
	if s.Interval > 0 && t.To != schemas.Offline && t.Visibility != schemas.Nobody && len(s.fresh) < maxFresh {
		s.fresh = append(s.fresh, t.User)
	}
}

// Take fills out with what is due at the machine's log time, and reports whether there is anything.
// It must not be called while the machine is Pending.
func (s *Sweep) Take(m *Machine, out *schemas.Seen) bool {
	now := m.clock.now
	*out = schemas.Seen{At: now, Version: m.version(0), Interval: s.Interval, Users: out.Users[:0], Devices: out.Devices[:0]}
	for _, id := range s.fresh {
		if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
			m.takeSeen(e, 0, out)
		}
	}
	s.fresh = s.fresh[:0]
	for range s.visits(now, m.store.end()) {
		if s.next >= m.store.end() {
			s.next, s.before, s.round = 0, s.round, now
		}
		m.takeSeen(s.next, s.before, out)
		s.next++
	}
	if now-s.counted >= countsEvery {
		s.counted = now
		counts := m.Present()
		out.Counts = &counts
	}
	return out.Counts != nil || len(out.Users) > 0
}

// visits is how many of the entries are due.
func (s *Sweep) visits(now schemas.Millis, entries uint32) int {
	if s.Interval <= 0 {
		return 0
	}
	s.owed += uint64(entries) * uint64(max(0, min(now-s.at, s.Interval)))
	s.at = now
	n := s.owed / uint64(s.Interval)
	s.owed %= uint64(s.Interval)
	s.more = n > maxVisits
	return int(min(n, maxVisits))
}

// takeSeen appends the user of an entry to out, if the user is present by a known device, visible,
// and was heard after since.
func (m *Machine) takeSeen(e uint32, since schemas.Millis, out *schemas.Seen) {
	h := m.store.hot(e)
	if h.user == 0 || h.flags&flagHidden != 0 || h.flags.state() == schemas.Offline {
		return
	}
	first := len(out.Devices)
	if h.flags&flagMany == 0 {
		seen := m.instant(h.seen)
		if h.flags&flagHeld == flagHeld {
			seen = max(seen, m.heardThrough(h.life))
		}
		if h.flags&flagPresent == 0 || seen <= since {
			return
		}
		out.Devices = append(out.Devices,
			schemas.SeenDevice{Device: h.device, Kind: h.flags.kind(), State: h.flags.state(), At: seen})
	} else {
		u := m.stored(h)
		if !u.holds() && u.lastSeen <= since || u.flaps.waiting != nil && u.flaps.waiting.hidden {
			return
		}
		m.use(u.tenant)
		m.takeDevices(u, first, out)
		for i := range out.Devices[first:] {
			out.Devices[first+i].State = shownAs(m.overrides[h.user], out.Devices[first+i].State)
		}
	}
	if n := len(out.Devices) - first; n > 0 {
		out.Users = append(out.Users, schemas.SeenUser{User: h.user, Devices: n})
	}
}

// takeDevices appends the devices of a user, each once, from the index first on. A presumed device
// has no id, and is left out.
func (m *Machine) takeDevices(u *user, first int, out *schemas.Seen) {
	now := m.clock.presence()
next:
	for i := range u.reports {
		r := &u.reports[i]
		if !r.live() || r.device == 0 {
			continue
		}
		d := schemas.SeenDevice{Device: r.device, Kind: r.kind, State: schemas.Away, At: m.lastHeard(r)}
		if m.activeUntil(r) > now {
			d.State = schemas.Online
		}
		for j := first; j < len(out.Devices); j++ {
			if known := &out.Devices[j]; known.Device == d.Device {
				d.State = max(d.State, known.State)
				if d.At < known.At {
					d.At, d.Kind = known.At, known.Kind
				}
				*known = d
				continue next
			}
		}
		out.Devices = append(out.Devices, d)
	}
}

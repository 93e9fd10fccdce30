package liveness

import "github.com/stillhere/stillhere/schemas"

const (
	// showMatters is how long after a show a report can still have a time before it.
	showMatters = schemas.MaxIdle + schemas.MaxAge
	// marksEvery is the log time between two searches for marks that no longer matter.
	marksEvery = schemas.Millis(10 * 60 * 1000)
	// marksPerTick bounds how many of these one tick forgets.
	marksPerTick = 1000
)

// mark is what must be known of a user whatever the presence, also of an unknown user. Few users
// have one.
type mark struct {
	// shownAt is at of the show of a user who has hidden, until the next hide. No change of the user
	// has an earlier time: what happened while the user hid stays hidden.
	shownAt schemas.Millis
	// erased is the version of the user's erasure, until withheld: whoever sends changes leaves out
	// older ones.
	erased   schemas.Version
	withheld schemas.Millis
}

// shownAt is when the user showed again; 0: never, or too long ago to matter.
func (m *Machine) shownAt(id schemas.UserID) schemas.Millis {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[id].shownAt
}

// markShow stores at of a show; 0: the user hides.
func (m *Machine) markShow(id schemas.UserID, at schemas.Millis) {
	k := m.marks[id]
	k.shownAt = at
	m.setMark(id, k)
}

// notBefore raises an instant to that of a show. 0, never, stays: a show does not say that a device was heard.
func notBefore(shown, at schemas.Millis) schemas.Millis {
	if at == 0 {
		return 0
	}
	return max(at, shown)
}

func (m *Machine) setMark(id schemas.UserID, k mark) {
	if k == (mark{}) {
		delete(m.marks, id)
		return
	}
	m.marks[id] = k
}

// addMark adds what is marked of the user to s. If nothing else needs to be known, s says no more.
func (m *Machine) addMark(s *schemas.Status) {
	k, marked := m.marks[s.User]
	if !marked {
		return
	}
	if s.Tombstone() {
		*s = schemas.Status{User: s.User, State: s.State, Visibility: s.Visibility, Version: s.Version}
	}
	s.ShownAt, s.ErasedVersion, s.WithheldUntil = k.shownAt, k.erased, k.withheld
}

// forgetMarks forgets marks that no longer matter, and writes statuses without them. Transitions do
// not depend on when it does.
func (m *Machine) forgetMarks() {
	if m.replaying || m.clock.now < m.marksAt {
		return
	}
	n := 0
	for id, k := range m.marks {
		if n == marksPerTick {
			return
		}
		e := m.index.find(&m.store, m.index.hash(id), id)
		left := k
		if e == none && k.shownAt+showMatters <= m.clock.now {
			left.shownAt = 0
		}
		if k.withheld <= m.clock.now {
			left.erased, left.withheld = 0, 0
		}
		if left == k {
			continue
		}
		n++
		m.setMark(id, left)
		u := &m.scratch
		if e != none {
			u = m.load(e, u)
		} else {
			e = m.enter(id, u)
		}
		m.emitStatus(u)
		m.save(e, u, true)
	}
	m.marksAt = m.clock.now + marksEvery
}

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
}

// shownAt is when the user showed again; 0: never, or too long ago to matter.
func (m *Machine) shownAt(id schemas.UserID) schemas.Millis {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[id].shownAt
}

// setMark stores what is marked of a user.
func (m *Machine) setMark(id schemas.UserID, k mark) {
	if k == (mark{}) {
		delete(m.marks, id)
		return
	}
	m.marks[id] = k
}

// marked is what is marked of a user, in a status that says no more than that.
func (m *Machine) marked(id schemas.UserID) schemas.Status {
	return schemas.Status{User: id, State: schemas.Offline, Visibility: schemas.Everyone,
		Version: m.version(m.ordinals.of(id)) - 1, ShownAt: m.shownAt(id)}
}

// forgetMarks forgets shows that no longer matter. Transitions do not depend on when it does.
func (m *Machine) forgetMarks() {
	if m.replaying || m.clock.now < m.marksAt {
		return
	}
	n := 0
	for id, k := range m.marks {
		if n == marksPerTick {
			return
		}
		if k.shownAt+showMatters > m.clock.now || m.index.find(&m.store, m.index.hash(id), id) != none {
			continue
		}
		n++
		delete(m.marks, id)
		m.out.Statuses = append(m.out.Statuses, m.marked(id))
	}
	m.marksAt = m.clock.now + marksEvery
}

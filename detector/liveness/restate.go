package liveness

import "github.com/stillhere/stillhere/schemas"

// Restate appends the status of a user again, between two records. The caller wants to add to it what the
// machine does not know.
func (m *Machine) Restate(id schemas.UserID, out *Output) {
	m.out = out
	m.restate(id)
	m.out = nil
}

// restate appends the status of a user again.
func (m *Machine) restate(id schemas.UserID) {
	e := m.index.find(&m.store, m.index.hash(id), id)
	u := &m.scratch
	if e != none {
		u = m.load(e, u)
	} else {
		e = m.enter(id, u)
	}
	m.emitStatus(u)
	m.save(e, u, true)
}

package liveness

import "github.com/stillhere/stillhere/schemas"

// Restate appends the status of a user again, between two records, if anything is known of the
// user. The caller wants to add to it what the machine does not know.
func (m *Machine) Restate(id schemas.UserID, out *Output) {
	e := m.index.find(&m.store, m.index.hash(id), id)
	_, hidden := m.hidden[id]
	u := &m.scratch
	switch {
	case e != none:
		u = m.load(e, u)
	case hidden, m.tenants.away[id] != 0:
		e = m.enter(id, u)
	default:
		return
	}
	m.out = out
	m.emitStatus(u)
	m.save(e, u, true)
	m.out = nil
}

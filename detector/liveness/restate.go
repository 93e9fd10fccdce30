package liveness

import "github.com/stillhere/stillhere/schemas"

// Restate appends the status of a user again, between two records, if anything is known of the
// user. The caller wants to add to it what the machine does not know.
func (m *Machine) Restate(id schemas.UserID, out *Output) {
	e := m.index.find(&m.store, m.index.hash(id), id)
	if e == none {
		return
	}
	m.out = out
	u := m.load(e, &m.scratch)
	m.emitStatus(u)
	m.save(e, u, true)
	m.out = nil
}

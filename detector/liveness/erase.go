package liveness

import "github.com/stillhere/stillhere/schemas"

// applyErasure makes a user unknown, and publishes it once. No limit of the user that is due by now
// is published before. Hidden and flapping users are published like others: the stores erase by
// this transition.
func (m *Machine) applyErasure(f *schemas.Frame) {
	id := f.ErasedUser
	e, u := m.named(id, &m.out.MisroutedErasure)
	if u == nil {
		return
	}
	was, at := u.published(), max(m.clock.now, m.earliest(u))
	for i := len(u.reports) - 1; i >= 0; i-- {
		m.drop(u, i)
	}
	delete(m.tenants.named, id)
	delete(m.overrides, id)
	delete(m.denied, id)
	u.reset(id)
	u.since = at // of whoever comes under this id, nothing lies before it
	m.use(0)
	m.setPrivacy(id, privacyRecord{})
	if f.WithheldUntil > m.clock.now {
		m.setPrivacy(id, privacyRecord{erased: m.version(m.ordinals.of(id)), withheld: f.WithheldUntil})
	}
	m.emit(&schemas.Transition{User: id, From: was.shown(), To: schemas.Offline, At: at, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Policy: m.policyID, ErasedUntil: f.ErasedUntil})
	m.emitStatus(u)
	m.save(e, u, true)
}

package liveness

import "github.com/stillhere/stillhere/schemas"

// An *override* is what a user asks to be shown as, whatever the devices say; see ../DESIGN.md. The rules judge the user
// as without it, and what is published follows from both. Few users have one.

// setOver notes the override of a user; nil: none.
func (m *Machine) setOver(id schemas.UserID, over *schemas.Override) {
	if over != nil {
		m.overrides[id] = over
	} else {
		delete(m.overrides, id)
	}
}

// setOverride applies the override that a record gives a user, which is none if it would be over.
func (m *Machine) setOverride(u *user, asked schemas.Override) {
	p := m.clock.presence()
	m.lookAhead(u, p)
	hides := u.hides()
	if asked.State == 0 || asked.Until != 0 && asked.Until <= m.clock.now {
		m.show(u, p, hides, nil, m.clock.now, true)
		return
	}
	asked.Hides = asked.State == schemas.Invisible && !hides
	m.show(u, p, hides, &asked, m.clock.now, true)
}

// hides reports whether u is hidden without the override.
func (u *user) hides() bool { return u.hidden && (u.over == nil || !u.over.Hides) }

// overAt is when the override of u ends; while the breaker is open, none does.
func (m *Machine) overAt(u *user) presence {
	switch {
	case u.over == nil || u.over.Until == 0, m.clock.stopped != 0 && u.over.Until > m.clock.stopped:
		return never
	case u.over.Until > m.clock.now: // if presence time goes on from now
		return m.clock.presence() + presence(u.over.Until-m.clock.now)
	}
	return m.clock.at(max(u.over.Until, m.restartedAt))
}

// rearmOverrides sets the timers of overrides anew after presence time stood still: their ends are log times.
func (m *Machine) rearmOverrides() {
	for id, over := range m.overrides {
		if over.Until == 0 {
			continue
		}
		if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
			m.arm(e, m.load(e, &m.scratch), true)
		}
	}
}

// overrideCause is why the override of a user is another one.
func overrideCause(over *schemas.Override) schemas.Cause {
	if over == nil {
		return schemas.OverrideOver
	}
	return schemas.OverrideSet
}

func sameOverride(a, b *schemas.Override) bool { return a == b || a != nil && b != nil && *a == *b }

// shownAs is what others see of a user in a state.
func shownAs(over *schemas.Override, state schemas.State) schemas.State {
	if over == nil {
		return state
	}
	return over.Shown(state)
}

// shownKinds are the kinds of devices as others see them.
func (w *facts) shownKinds() schemas.KindSet {
	if w.shown() != w.state {
		return w.kinds.As(w.shown())
	}
	return w.kinds
}

// override is what transitions and statuses say of the override.
func (w *facts) override() schemas.Override {
	if w.over == nil {
		return schemas.Override{}
	}
	over := *w.over
	if over.State == schemas.SetAway {
		over.Automatic = w.state
	}
	return over
}

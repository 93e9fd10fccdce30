package liveness

import "github.com/stillhere/stillhere/schemas"

// An *override* is what a user asks to be shown as, whatever the devices say; see ../DESIGN.md. The rules judge the user
// as without it, and what is published follows from both. Few users have one. LastSeen and Audience are kept in it, too:
// an override without a state has nothing else.

// setOver notes the override of a user; nil: nothing.
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
		m.show(u, p, hides, u.withoutOverride(), m.clock.now, true)
		return
	}
	asked.Hides, asked.LastSeen = asked.State == schemas.Invisible && !hides, valueOf(u.over).LastSeen
	asked.Audience = valueOf(u.over).Audience
	m.show(u, p, hides, &asked, m.clock.now, true)
}

// setLastSeen applies what a record says of what others learn of when a user was last here.
func (m *Machine) setLastSeen(u *user, as schemas.LastSeen) {
	m.lookAhead(u, m.clock.presence())
	over := valueOf(u.over)
	if over.LastSeen = as; as == schemas.SeenExactly {
		over.LastSeen = 0
	}
	m.show(u, m.clock.presence(), u.hides(), orNone(over), m.clock.now, true)
}

// valueOf is the override that over points to; the zero value if it is nil.
func valueOf(over *schemas.Override) (o schemas.Override) {
	if over != nil {
		o = *over
	}
	return o
}

// withoutOverride is what stays when the override of u ends.
func (u *user) withoutOverride() *schemas.Override {
	return orNone(valueOf(u.over).Staying())
}

// Many users may have one of these: they share them.
var (
	onlyCoarsely = &schemas.Override{LastSeen: schemas.SeenCoarsely}
	onlyNever    = &schemas.Override{LastSeen: schemas.SeenNever}
)

// orNone is over as machines hold it, which never changes; nil: none.
func orNone(over schemas.Override) *schemas.Override {
	switch over {
	case schemas.Override{}:
		return nil
	case *onlyCoarsely:
		return onlyCoarsely
	case *onlyNever:
		return onlyNever
	}
	return &over
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

// overrideCause is why the override of a user is another one than before.
func overrideCause(before, over *schemas.Override) schemas.Cause {
	was, is := valueOf(before), valueOf(over)
	switch was.LastSeen = is.LastSeen; {
	case was == is:
		return schemas.LastSeenSet
	case is.State == 0:
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
	over := valueOf(w.over)
	if over.State == schemas.SetAway {
		over.Automatic = w.state
	}
	return over
}

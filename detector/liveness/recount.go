package liveness

import "github.com/stillhere/stillhere/schemas"

// Counted is as what a user counts among the present ones. The zero value is a user who does not
// count: offline or hidden.
type Counted struct {
	State schemas.State // Online or Away
	Kinds schemas.KindSet
}

// Recount is a user who counts as something else since a record.
type Recount struct {
	User          schemas.UserID
	Before, After Counted
}

func (f flags) counted() Counted {
	if s := f.state(); f&flagHidden != 0 || s != schemas.Online && s != schemas.Away {
		return Counted{}
	}
	return Counted{State: f.state(), Kinds: f.kinds()}
}

// AddTo adds n users who count as c to the counts of the users of their state. Both may be the same.
func (c Counted) AddTo(online, away *schemas.Counts, n int64) {
	counts := online
	switch c.State {
	case schemas.Online:
		online.Online += n
	case schemas.Away:
		counts = away
		away.Away += n
	default:
		return
	}
	for i, kind := range schemas.Kinds {
		if c.Kinds&(1<<kind) != 0 {
			counts.ByKind[i] += n
		}
	}
}

// recount counts a user by other flags than before.
func (m *Machine) recount(user schemas.UserID, before, after flags) {
	r := Recount{User: user, Before: before.counted(), After: after.counted()}
	if r.Before == r.After {
		return
	}
	r.Before.AddTo(&m.online, &m.away, -1)
	r.After.AddTo(&m.online, &m.away, 1)
	if m.Recounts && m.out != nil {
		m.out.Recounts = append(m.out.Recounts, r)
	}
}

// CountedAs is as what a user counts, between two calls of Apply and Continue.
func (m *Machine) CountedAs(user schemas.UserID) Counted {
	if e := m.index.find(&m.store, m.index.hash(user), user); e != none {
		return m.store.hot(e).flags.counted()
	}
	return Counted{}
}

// AllCounted yields the users who count, in no order. The machine must not be changed meanwhile.
func (m *Machine) AllCounted(yield func(schemas.UserID, Counted) bool) {
	for e := range m.liveEntries() {
		h := m.store.hot(e)
		if c := h.flags.counted(); c != (Counted{}) && !yield(h.user, c) {
			return
		}
	}
}

// Present counts the visible users who are present, as others see them by the rules: also while a change
// waits because its user changes too often.
func (m *Machine) Present() schemas.Counts {
	all := m.online
	all.Add(&m.away)
	return all
}

// PresentByState is Present of the users who are online, and of those who are away.
func (m *Machine) PresentByState() (online, away schemas.Counts) { return m.online, m.away }

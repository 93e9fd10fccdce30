package fanout

import "github.com/stillhere/stillhere/schemas"

// Change is a transition that viewers may know of, on its way to them. It must
// not be altered: all viewers of the user share it.
type Change struct {
	Transition *schemas.Transition
	// Since is when the state that the transition ends in began; 0 where the
	// sender did not know (the state stayed the same, or the user had been hidden).
	Since schemas.Millis
}

// ChangeOf is what viewers may know of t; false when that is nothing. Of a user
// who hides they may know that, once, and the change carries no more than that:
// what must not be shown does not enter Redis by this door.
func ChangeOf(t *schemas.Transition) (Change, bool) {
	if t.Visibility == schemas.Nobody {
		if t.Cause != schemas.VisibilityChange {
			return Change{}, false
		}
		return Change{Transition: &schemas.Transition{
			User: t.User, From: schemas.Offline, To: schemas.Offline, At: t.At,
			Cause: t.Cause, Visibility: t.Visibility, Version: t.Version, Policy: t.Policy,
		}}, true
	}
	c := Change{Transition: t}
	if t.From != t.To {
		c.Since = t.At
	}
	return c, true
}

// Hides tells whether the change is that the user hid.
func (c Change) Hides() bool { return c.Transition.Visibility == schemas.Nobody }

// After is how others see the user after c, who was seen as previous before. Since
// stays 0 when neither knows it.
func (c Change) After(previous schemas.Presence) schemas.Presence {
	t := c.Transition
	next := schemas.Current{
		User: t.User, State: t.To, Since: c.Since, LastSeen: t.LastSeen, LastActive: t.LastActive,
		Kinds: t.Kinds, Visibility: t.Visibility, Version: t.Version,
	}
	if c.Hides() {
		next.Hidden = t.Version
	}
	// Another state before than the transition says: one in between was missed, and
	// with it the instant that is wanted.
	if next.Since == 0 && previous.State != nil && *previous.State == schemas.StateWord(t.From) {
		next.Since = previous.Since
	}
	return schemas.PresenceOf(next, 0)
}

// Receiver is told what arrives on the subscribed channels. Its methods are called
// from the goroutines of the bus and must not block. Changes of one user come one
// at a time and, while the connection holds, in the order in which they were
// published; the same one may come twice.
type Receiver interface {
	Change(c Change)
	// Connected says that the connection stands and that every channel wanted when
	// it was made is subscribed. What was published before may have been missed.
	Connected()
}

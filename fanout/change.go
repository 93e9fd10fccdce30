package fanout

import "github.com/stillhere/stillhere/schemas"

// Change is a transition that viewers may know of, on its way to them. It must
// not be altered: all viewers of the user share it.
type Change struct {
	Transition *schemas.Transition
	// Since is when the state that the transition ends in began; 0 where the
	// sender did not know (the state stayed the same).
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
	c := Change{Transition: Shown(t)}
	if t.From != t.To || t.Cause == schemas.VisibilityChange {
		c.Since = t.At
	}
	return c, true
}

// OfflineChangeOf is ChangeOf where a hidden user is shown as offline since the hide: that
// has the time of the last activity before it, as a leaving would.
func OfflineChangeOf(t *schemas.Transition) (Change, bool) {
	c, ok := ChangeOf(t)
	if ok && c.Hides() {
		c.Transition.LastActive = t.LastActive
	}
	return c, ok
}

// AsIfGone is t as it looks where a hidden user is shown as offline since the hide: a hide
// is a leaving, a show an arrival. False where nothing can be seen of it.
func AsIfGone(t *schemas.Transition) (*schemas.Transition, bool) {
	turns, gone := t.Cause == schemas.VisibilityChange, *t
	switch {
	case t.Visibility == schemas.Nobody:
		gone.To, gone.Cause, gone.Kinds, gone.Visibility = schemas.Offline, schemas.Bye, 0, schemas.Everyone
		gone.LastSeen = t.At
		return &gone, turns && t.From != schemas.Offline
	case turns:
		gone = *Shown(t)
		gone.From, gone.Cause = schemas.Offline, schemas.FirstBeat
		return &gone, t.To != schemas.Offline
	}
	return t, true
}

// Shown is t, or of a user who shows again what may be told of it: the times begin now,
// for those of t are of when the user hid, as are the state before and the changes that
// were left out.
func Shown(t *schemas.Transition) *schemas.Transition {
	if t.Cause != schemas.VisibilityChange || t.Visibility == schemas.Nobody {
		return t
	}
	shown := *t
	shown.From, shown.LastSeen, shown.LastActive, shown.LeftOut = t.To, t.At, t.At, 0
	return &shown
}

// Hides tells whether the change is that the user hid.
func (c Change) Hides() bool { return c.Transition.Visibility == schemas.Nobody }

// AsOffline is After where a hidden user is shown as offline since the hide, at which it was
// seen last; who was offline before stays so.
func (c Change) AsOffline(previous schemas.Presence) schemas.Presence {
	t := c.Transition
	if !c.Hides() {
		return c.After(previous)
	}
	next := schemas.Current{User: t.User, State: schemas.Offline, Since: t.At, LastSeen: max(previous.LastSeenAt, t.At),
		LastActive: max(previous.LastActiveAt, t.LastActive), Visibility: schemas.Everyone, Version: t.Version}
	if previous.State != nil && *previous.State == schemas.StateWord(schemas.Offline) {
		next.Since, next.LastSeen, next.LastActive = previous.Since, previous.LastSeenAt, previous.LastActiveAt
	}
	return schemas.PresenceOf(next, 0)
}

// After is how others see the user after c, who was seen as previous before. Since
// stays 0 when neither knows it. Last seen and last active never go back.
func (c Change) After(previous schemas.Presence) schemas.Presence {
	t := c.Transition
	next := schemas.Current{
		User: t.User, State: t.To, Since: c.Since, LastSeen: max(previous.LastSeenAt, t.LastSeen),
		LastActive: max(previous.LastActiveAt, t.LastActive),
		Kinds:      t.Kinds, Visibility: t.Visibility, Version: t.Version,
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

package fanout

import (
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// Change is a transition as viewers may see it. It is immutable: all viewers of the user share it.
type Change struct {
	Transition *schemas.Transition
	// Since is when the state after the transition began; 0 if the sender does not know it (the state
	// stayed the same).
	Since schemas.Millis
}

// ChangeOf returns what viewers may know of t; false when that is nothing. Of a hidden user they may
// know the hide, once, and the change carries no more than that: what must not be shown does not
// enter Redis.
func ChangeOf(t *schemas.Transition) (Change, bool) {
	seen, visible := shown.AsNull(t)
	c := Change{Transition: seen}
	if !visible || c.Hides() {
		return c, visible
	}
	if (t.From != t.To || t.Cause == schemas.VisibilityChange) && t.Cause != schemas.Erased {
		c.Since = t.At
	}
	return c, true
}

// OfflineChangeOf is ChangeOf where a hidden user is shown as offline since the hide. The hide then
// has the time of the last activity before it, as going offline would.
func OfflineChangeOf(t *schemas.Transition) (Change, bool) {
	c, ok := ChangeOf(t)
	if ok && c.Hides() {
		c.Transition.LastActive = t.LastActive
		c.Transition.HideTimes()
	}
	return c, ok
}

// Hides reports whether the change is a hide.
func (c Change) Hides() bool { return c.Transition.Visibility == schemas.Nobody }

// AsOffline is After where a hidden user is shown as offline since the hide and last seen at it. A
// user who was offline before stays the same.
func (c Change) AsOffline(previous schemas.Presence) schemas.Presence {
	t := c.Transition
	if !c.Hides() {
		return c.After(previous)
	}
	next := schemas.Current{User: t.User, State: schemas.Offline, Since: t.At, LastSeen: max(previous.LastSeenAt, t.At),
		LastActive: max(previous.LastActiveAt, t.LastActive), Visibility: schemas.Everyone, Version: t.Version,
		Override: t.Override.ForOthers()}
	if previous.State != nil && *previous.State == schemas.StateWord(schemas.Offline) {
		next.Since, next.LastSeen, next.LastActive = previous.Since, previous.LastSeenAt, previous.LastActiveAt
	}
	return c.shown(next, previous)
}

// After returns how others see the user after c, seen as previous before. Since stays 0 when neither
// knows it. Last seen and last active never go back.
func (c Change) After(previous schemas.Presence) schemas.Presence {
	t := c.Transition
	if t.Cause == schemas.Erased {
		return schemas.PresenceOf(schemas.Current{}.After(t), 0, t.At)
	}
	next := schemas.Current{
		User: t.User, State: t.To, Since: c.Since, LastSeen: max(previous.LastSeenAt, t.LastSeen),
		LastActive: max(previous.LastActiveAt, t.LastActive),
		Kinds:      t.Kinds, Visibility: t.Visibility, Version: t.Version, Override: t.Override,
	}
	if c.Hides() {
		next.Hidden = t.Version
	}
	// If previous has another state than the transition's From, a change in between was missed, and
	// with it the begin of the state.
	if next.Since == 0 && previous.State != nil && *previous.State == schemas.StateWord(t.From) {
		next.Since = previous.Since
	}
	return c.shown(next, previous)
}

// shown is how others see next. Where c does not say when the user was last here, the word of previous stays.
func (c Change) shown(next schemas.Current, previous schemas.Presence) schemas.Presence {
	p := schemas.PresenceOf(next, 0, c.Transition.At)
	if next.Override.Coarse() && p.State != nil && next.State == schemas.Offline && next.LastSeen == 0 {
		if p.LastSeen = previous.LastSeen; p.LastSeen == "hidden" {
			p.LastSeen = ""
		}
	}
	return p
}

// Receiver receives what arrives on the subscribed channels. The goroutines of the bus call its
// methods, which must not block. Changes of one user come one at a time and, while the connection is
// up, in the order in which they were published; the same change may come twice.
type Receiver interface {
	Change(c Change)
	// Reread says that the status of a user is another one than before, without a change.
	Reread(user schemas.UserID)
	// Connected says that a connection was made and every channel wanted then is subscribed. What was
	// published before may have been missed.
	Connected()
	// Disconnected says that the connection was lost, or that there is still none: changes may be missed
	// until Connected. It comes before anything of the next connection.
	Disconnected()
}

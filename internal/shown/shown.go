package shown

import "github.com/stillhere/stillhere/schemas"

// AsNull returns what others may know of t where a hidden user is shown as null; false when that is nothing.
// Of a hidden user they may know the hide, once, and it carries no more than that.
func AsNull(t *schemas.Transition) (*schemas.Transition, bool) {
	switch {
	case t.Visibility != schemas.Nobody:
		return Transition(t), true
	case t.Cause != schemas.VisibilityChange:
		return nil, false
	}
	return &schemas.Transition{User: t.User, From: schemas.Offline, To: schemas.Offline, At: t.At, Cause: t.Cause,
		Visibility: t.Visibility, Version: t.Version, Policy: t.Policy, Name: t.Name,
		Override: t.Override.Staying()}, true
}

// AsIfOffline returns t as it looks where a hidden user is shown as offline since the hide: the hide is
// going offline, the show is coming online. False when nothing of t can be seen.
func AsIfOffline(t *schemas.Transition) (*schemas.Transition, bool) {
	visibilityChanged, seen := t.Cause == schemas.VisibilityChange, *t
	switch {
	case t.Visibility == schemas.Nobody:
		seen.To, seen.Cause, seen.Kinds, seen.Visibility = schemas.Offline, schemas.Bye, 0, schemas.Everyone
		seen.LastSeen = t.At
		seen.Denies, seen.AudienceBefore = "", 0
		seen.HideOverride()
		seen.HideTimes()
		return &seen, visibilityChanged && t.From != schemas.Offline
	case visibilityChanged:
		seen = *Transition(t)
		seen.From, seen.Cause = schemas.Offline, schemas.FirstBeat
		return &seen, t.To != schemas.Offline
	}
	return Transition(t), true
}

// Transition returns t, except for a hidden user who shows again: then all times are those of the show,
// because the times, the state before and the collapsed changes of t are from the hidden time. An
// erased user was offline before: the user may have been hidden. Of an override others know that the user does not
// want to be disturbed, and by the cause that one was set or ended. Of times they know what the user shows. Whom the user
// denies, nobody else learns.
func Transition(t *schemas.Transition) *schemas.Transition {
	if t.Cause == schemas.Erased {
		seen := *t
		seen.From = schemas.Offline
		return &seen
	}
	shows := t.Cause == schemas.VisibilityChange && t.Visibility != schemas.Nobody
	if !shows && t.Override == t.Override.ForOthers() && t.Override.LastSeen == 0 && t.Denies == "" {
		return t
	}
	seen := *t
	if shows {
		seen.From, seen.LastSeen, seen.LastActive, seen.LeftOut = t.To, t.At, t.At, 0
	}
	seen.HideOverride()
	seen.HideTimes()
	seen.Denies, seen.AudienceBefore = "", 0
	return &seen
}

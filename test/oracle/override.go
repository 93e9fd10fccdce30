package oracle

import "github.com/stillhere/stillhere/schemas"

// shown is what others see of a user, and of what that follows.
type shown struct {
	state    schemas.State // automatic
	kinds    schemas.KindSet
	nobody   bool             // the visibility
	override schemas.Override // as asked for, with what others learn of last seen
}

// seen is the state that others see.
func (s shown) seen() schemas.State {
	if s.override.State == schemas.SetAway && s.state == schemas.Online {
		return schemas.Away
	}
	return s.state
}

// hidden reports whether others see nothing.
func (s shown) hidden() bool { return s.nobody || s.override.State == schemas.Invisible }

// turned reports whether from s to next is a change of state.
func (s shown) turned(next shown) bool { return s.state != next.state || s.seen() != next.seen() }

// seenKinds are the kinds that others see: of one who is not online, none is active.
func (s shown) seenKinds() schemas.KindSet {
	if s.seen() != s.state {
		return s.kinds.As(s.seen())
	}
	return s.kinds
}

// overridden is the override as it is published.
func (s shown) overridden() schemas.Override {
	o := s.override
	if o.State == schemas.SetAway {
		o.Automatic = s.state
	}
	o.Hides = o.State == schemas.Invisible && !s.nobody
	return o
}

// learnsOther reports whether next differs only in what others learn of when the user was last here.
func (s shown) learnsOther(next shown) bool {
	same := next.override
	same.LastSeen = s.override.LastSeen
	return same == s.override && next.override != s.override && next.nobody == s.nobody
}

// published is the override of u, who is seen so, as transitions have it: with what the policy lets others learn.
func (w *world) published(u *user, seen shown) schemas.Override {
	o := seen.overridden()
	if w.of(u).policy.CoarseLastSeen {
		o.LastSeen = max(o.LastSeen, schemas.SeenByPolicy)
	}
	return o
}

// askedFor is why a user is shown as next: another visibility, or another override.
func (s shown) askedFor(next shown) schemas.Cause {
	switch {
	case s.hidden() != next.hidden():
		return schemas.VisibilityChange
	case s.learnsOther(next):
		return schemas.LastSeenSet
	case next.override.State == 0:
		return schemas.OverrideOver
	}
	return schemas.OverrideSet
}

// setShown changes what the user asks for: the visibility or the override.
func (w *world) setShown(id schemas.UserID, set func(*shown)) {
	u := w.user(id)
	if u == nil {
		return
	}
	w.lookAhead(u, w.presence(w.now))
	u = w.user(id)
	next := u.shown
	if set(&next); next != u.shown {
		w.rejudgeKinds(u, &next, w.presence(w.now))
		w.change(u, w.presence(w.now), next, w.now, reason{row: true}, u.askedFor(next))
	}
	w.forget(u)
}

// setOverride gives a user an override in place of the one before.
func (w *world) setOverride(id schemas.UserID, o schemas.Override) {
	if o.Until != 0 && o.Until <= w.now {
		o = schemas.Override{}
	}
	w.setShown(id, func(s *shown) {
		o.LastSeen, o.Audience = s.override.LastSeen, s.override.Audience
		s.override = o
	})
}

// setLastSeen sets what others learn of when a user was last here.
func (w *world) setLastSeen(id schemas.UserID, as schemas.LastSeen) {
	if as == schemas.SeenExactly {
		as = 0
	}
	w.setShown(id, func(s *shown) { s.override.LastSeen = as })
}

// overrideLimit is when the override of u ends; never: it does not, or not while the breaker is open. What happens to
// presence time until then is not known before.
func (w *world) overrideLimit(u *user) millis {
	end := u.override.Until
	if end == 0 || w.stopped != 0 && end > w.stopped {
		return never
	}
	end = max(end, w.restartedAt)
	return w.presence(min(end, w.now)) + millis(max(0, end-w.now))
}

// endOverride ends the override of u at its limit.
func (w *world) endOverride(u *user, limit millis) {
	u.forgetPresence()
	next := u.shown
	next.override = schemas.Override{LastSeen: u.override.LastSeen, Audience: u.override.Audience}
	w.rejudgeKinds(u, &next, limit)
	w.change(u, limit, next, u.override.Until, reason{}, u.askedFor(next))
}

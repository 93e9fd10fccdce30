package store

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Update is what a run of transitions of one user says of it. Two of its fields
// may depend on what was known before; then they hold what they are when nothing
// was known.
type Update struct {
	schemas.Current
	// SinceKnown: the run itself tells since when the state holds.
	SinceKnown bool
	// HiddenKnown: the run itself tells the version at which the user hid.
	HiddenKnown bool
	// TimesKnown: no time before the run may be later than those of the run, as after an
	// arrival or a show; otherwise last seen and last active of what was known before may
	// be, and then they hold.
	TimesKnown bool
}

// After is what the stores keep of a user after t, which comes right after c in the log;
// the zero Current stands for nothing known. It is schemas.Current.After, but for the
// times, of which nothing may come out that happened while the user hid:
//
//   - while the user hides they stand still. On hiding, who was not offline has them as
//     if it had said bye at that instant;
//   - on showing they begin: since, last seen and last active are the instant of the show;
//   - last seen and last active never go back, so that a change after the show does not
//     tell one of before it.
func After(c schemas.Current, t *schemas.Transition) schemas.Current {
	if t.Version <= c.Version {
		return c
	}
	next := c.After(t)
	seen, active := t.LastSeen, t.LastActive
	switch turns := t.Cause == schemas.VisibilityChange; {
	case t.Visibility == schemas.Nobody && !turns:
		seen, active = 0, 0
		if c.Version != 0 {
			next.Since = c.Since
		}
	case t.Visibility == schemas.Nobody:
		if next.Since, seen, active = t.At, t.At, t.LastActive; t.From == schemas.Offline {
			seen = t.LastSeen
			if c.Version != 0 {
				next.Since = c.Since
			}
		}
	case turns:
		next.Since, seen, active = t.At, t.At, t.At
	}
	next.LastSeen, next.LastActive = max(c.LastSeen, seen), max(c.LastActive, active)
	return next
}

// Fold makes one Update of all transitions of each user, ordered by user. Of one
// user, the transitions must be in ascending version; the others are ignored.
func Fold(changes []*schemas.Transition) []Update {
	place := make(map[schemas.UserID]int, len(changes))
	updates := make([]Update, 0, len(changes))
	for _, t := range changes {
		i, seen := place[t.User]
		if !seen {
			place[t.User] = len(updates)
			updates = append(updates, Update{
				Current:     After(schemas.Current{}, t),
				SinceKnown:  determinesSince(t),
				HiddenKnown: determinesHidden(t),
				TimesKnown:  determinesTimes(t),
			})
			continue
		}
		u := &updates[i]
		if t.Version <= u.Version {
			continue
		}
		// u holds what it would be had nothing been known, so After is right for
		// everything that the run itself tells, and leaves the rest as it is.
		u.Current = After(u.Current, t)
		u.SinceKnown = u.SinceKnown || determinesSince(t)
		u.TimesKnown = u.TimesKnown || determinesTimes(t)
		u.HiddenKnown = u.HiddenKnown || determinesHidden(t)
	}
	slices.SortFunc(updates, func(a, b Update) int {
		if a.User < b.User {
			return -1
		}
		return 1
	})
	return updates
}

// determinesSince tells whether since is told by t alone.
func determinesSince(t *schemas.Transition) bool {
	turns := t.Cause == schemas.VisibilityChange
	if t.Visibility == schemas.Nobody {
		return turns && t.From != schemas.Offline
	}
	return turns || t.From != t.To
}

// determinesTimes tells whether nothing before t can have later times that count.
func determinesTimes(t *schemas.Transition) bool {
	if t.Visibility == schemas.Nobody {
		return false
	}
	return t.Cause == schemas.VisibilityChange || t.From == schemas.Offline && t.To != schemas.Offline
}

// determinesHidden tells whether the version at which the user hid can be told
// from t alone.
func determinesHidden(t *schemas.Transition) bool {
	return t.Visibility != schemas.Nobody || t.Cause == schemas.VisibilityChange
}

// Onto is what is known of the user after the update, when c was known before.
// It equals After of each transition of the run in turn. The stores do the
// same in their own languages.
func (u Update) Onto(c schemas.Current) schemas.Current {
	if u.Version <= c.Version {
		return c
	}
	next := u.Current
	if !u.SinceKnown && c.Version != 0 {
		next.Since = c.Since
	}
	if !u.HiddenKnown && c.Hidden != 0 {
		next.Hidden = c.Hidden
	}
	next.LastSeen, next.LastActive = max(c.LastSeen, next.LastSeen), max(c.LastActive, next.LastActive)
	return next
}

// Veil takes out of a page of visible changes, newest first, what is of when the user hid:
// after a show, no time is before it, and a show tells neither the state before it nor how
// many changes were left out. shown is asked for the instant of the last show
// after one instant and up to another; 0: there is none.
func Veil(changes []*schemas.Transition, shown func(after, through schemas.Millis) (schemas.Millis, error)) error {
	if len(changes) == 0 {
		return nil
	}
	oldest := changes[len(changes)-1]
	show, err := shown(min(oldest.LastSeen, oldest.LastActive), oldest.At)
	if err != nil {
		return err
	}
	for _, t := range slices.Backward(changes) {
		if t.Cause == schemas.VisibilityChange {
			show, t.From, t.LeftOut = t.At, t.To, 0
		}
		t.LastSeen, t.LastActive = max(t.LastSeen, show), max(t.LastActive, show)
	}
	return nil
}

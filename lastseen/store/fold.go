package store

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Update is the effect of a run of transitions of one user. Two of its fields may depend on what
// was known before; they are set as if nothing was known.
type Update struct {
	schemas.Current
	// SinceKnown: the run determines Since.
	SinceKnown bool
	// HiddenKnown: the run determines the version at which the user hid.
	HiddenKnown bool
	// TimesKnown: no time before the run can be later than those of the run, as after an arrival
	// or a show. Otherwise a later last seen or last active known before stays.
	TimesKnown bool
	// Erased: the run erases the user. Everything known before is dropped.
	Erased bool
	// Name is the user's name in text mode, if a transition of the run has it.
	Name schemas.Name
}

// OnlyErased reports whether nothing is known of the user after the update.
func (u Update) OnlyErased() bool { return u.Erased && u.Since == 0 }

// After is what the stores keep of a user after t, the next transition in the log after c; the
// zero Current means that nothing is known. It equals schemas.Current.After except for the times,
// which must not reveal what happened while the user hid:
//
//   - While the user is hidden, the times stand still. A user who hides while online gets the times of
//     a bye at that instant.
//   - A show starts them again: since, last seen and last active are the instant of the show.
//   - Last seen and last active never go back, so that a change after the show does not reveal one before it.
func After(c schemas.Current, t *schemas.Transition) schemas.Current {
	if t.Version <= c.Version {
		return c
	}
	next := c.After(t)
	if t.Cause == schemas.Erased {
		return next
	}
	seen, active := t.LastSeen, t.LastActive
	switch visibilityChanged := t.Cause == schemas.VisibilityChange; {
	case t.Visibility == schemas.Nobody && !visibilityChanged:
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
	case visibilityChanged:
		next.Since, seen, active = t.At, t.At, t.At
	}
	next.LastSeen, next.LastActive = max(c.LastSeen, seen), max(c.LastActive, active)
	return next
}

// Has reports whether row, what a store keeps of a user, has the newest change of the user whom a status
// or Redis shows as c. Where c came without a change, no row has its version: the row has the change before
// it if it says the same, or by the policy that others learn less of when the user was last here. (If it does not have
// some changes that cancelled one another out, they are listed later.)
func Has(row, c schemas.Current) bool {
	return row.Version >= c.Version ||
		!c.Version.OfChange() && row.Version != 0 && row.State == c.State && row.Visibility == c.Visibility &&
			row.Override.State == c.Override.State && row.Override.LastSeen >= c.Override.LastSeen &&
			row.Override.Audience >= c.Override.Audience
}

// ByUser returns the changes ordered by user, those of one user as they were.
func ByUser(changes []*schemas.Transition) []*schemas.Transition {
	type place struct {
		user  schemas.UserID
		index int
	}
	places := make([]place, len(changes))
	for i, t := range changes {
		places[i] = place{t.User, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.index, b.index))
	})
	ordered := make([]*schemas.Transition, len(changes))
	for i, p := range places {
		ordered[i] = changes[p.index]
	}
	return ordered
}

// Fold makes one Update per user, ordered by user. Transitions of one user must be in ascending
// version; others are ignored.
func Fold(changes []*schemas.Transition) []Update { return FoldByUser(ByUser(changes)) }

// FoldByUser is Fold of changes that ByUser has ordered.
func FoldByUser(changes []*schemas.Transition) []Update {
	updates := make([]Update, 0, len(changes))
	for i, t := range changes {
		if i == 0 || changes[i-1].User != t.User {
			updates = append(updates, Update{})
		}
		u := &updates[len(updates)-1]
		switch {
		case t.Version <= u.Version:
		case t.Cause == schemas.Erased:
			*u = Update{Current: After(schemas.Current{}, t), SinceKnown: true, HiddenKnown: true, TimesKnown: true,
				Erased: true}
		default:
			if t.Name.Text != "" {
				u.Name = t.Name
			}
			// u holds what it would be had nothing been known, so After is right for
			// everything that the run itself determines, and leaves the rest as it is.
			u.Current = After(u.Current, t)
			u.SinceKnown = u.SinceKnown || determinesSince(t)
			u.TimesKnown = u.TimesKnown || determinesTimes(t)
			u.HiddenKnown = u.HiddenKnown || determinesHidden(t)
		}
	}
	return updates
}

func determinesSince(t *schemas.Transition) bool {
	visibilityChanged := t.Cause == schemas.VisibilityChange
	if t.Visibility == schemas.Nobody {
		return visibilityChanged && t.From != schemas.Offline
	}
	return visibilityChanged || t.From != t.To
}

// determinesTimes reports whether nothing before t can have later times that count.
func determinesTimes(t *schemas.Transition) bool {
	if t.Visibility == schemas.Nobody {
		return false
	}
	return t.Cause == schemas.VisibilityChange || t.From == schemas.Offline && t.To != schemas.Offline
}

func determinesHidden(t *schemas.Transition) bool {
	return t.Visibility != schemas.Nobody || t.Cause == schemas.VisibilityChange
}

// Onto is what is known of the user after the update, when c was known before. It equals After of
// each transition of the run in turn. The stores do the same in SQL and Lua.
func (u Update) Onto(c schemas.Current) schemas.Current {
	if u.Version <= c.Version {
		return c
	}
	next := u.Current
	if u.Erased {
		return next
	}
	if !u.SinceKnown && c.Version != 0 {
		next.Since = c.Since
	}
	if !u.HiddenKnown && c.Hidden != 0 {
		next.Hidden = c.Hidden
	}
	if c.Version != 0 { // an imported row has version 0: the first change replaces it
		next.LastSeen, next.LastActive = max(c.LastSeen, next.LastSeen), max(c.LastActive, next.LastActive)
	}
	return next
}

// RedactHidden removes from a page of visible changes, newest first, what happened while the user
// hid: after a show, no time is before it, and a show reveals neither the state before it nor the
// number of changes left out. Of overrides stays what others may know. shown returns the instant of the last show
// after one instant and up to another, or 0.
func RedactHidden(changes []*schemas.Transition, shown func(after, through schemas.Millis) (schemas.Millis, error)) error {
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
		t.HideOverride()
	}
	return nil
}

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
				Current:     schemas.Current{}.After(t),
				SinceKnown:  t.From != t.To,
				HiddenKnown: determinesHidden(t),
			})
			continue
		}
		u := &updates[i]
		if t.Version <= u.Version {
			continue
		}
		// u holds what it would be had nothing been known, so After is right for
		// everything that the run itself tells, and leaves the rest as it is.
		u.Current = u.After(t)
		u.SinceKnown = u.SinceKnown || t.From != t.To
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

// determinesHidden tells whether the version at which the user hid can be told
// from t alone.
func determinesHidden(t *schemas.Transition) bool {
	return t.Visibility != schemas.Nobody || t.Cause == schemas.VisibilityChange
}

// Onto is what is known of the user after the update, when c was known before.
// It equals c.After of each transition of the run in turn. The stores do the
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
	return next
}

package store

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// MissedQuery asks for the changes of users after a version of each.
type MissedQuery struct {
	Users []schemas.UserID // without repeats
	After []schemas.Version
	// From is an instant that no such change is before; 0: not known. It keeps old days unread.
	From schemas.Millis
	// Limit is the greatest number of changes to read, at least 1.
	Limit int
}

// Missed are the changes of a MissedQuery.
type Missed struct {
	// Changes are ordered by user and version. As a history, they have nothing of the time in which a
	// user hid, and nothing at all of a hidden user.
	Changes []*schemas.Transition
	// Begins is where the log of changes begins, read after the changes; 0: nothing was ever dropped.
	Begins schemas.Millis
}

// RedactMissed is RedactHidden for changes ordered by user and version. shown are the instants of the
// user's last show up to each change, or 0.
func RedactMissed(changes []*schemas.Transition, shown []schemas.Millis) {
	for begin := 0; begin < len(changes); {
		end := begin + 1
		for end < len(changes) && changes[end].User == changes[begin].User {
			end++
		}
		newestFirst := slices.Clone(changes[begin:end])
		slices.Reverse(newestFirst)
		first := shown[begin]
		_ = RedactHidden(newestFirst, func(schemas.Millis, schemas.Millis) (schemas.Millis, error) { return first, nil })
		begin = end
	}
}

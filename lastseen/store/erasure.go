package store

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Erasure is what a store remembers of an erased user: changes up to the version count for nothing.
// After Until no topic has such changes, and the store forgets the erasure too.
type Erasure struct {
	User    schemas.UserID
	Version schemas.Version
	Until   schemas.Millis
}

// splitErased returns the changes that count, and the newest erasure of each user among them, ordered
// by user. erased are earlier erasures. The result shares no array with changes if it is shorter.
func splitErased(changes []*schemas.Transition, erased map[schemas.UserID]schemas.Version) ([]*schemas.Transition, []Erasure) {
	newest := map[schemas.UserID]Erasure{}
	for _, t := range changes {
		if t.Cause == schemas.Erased && t.Version > newest[t.User].Version && t.Version >= erased[t.User] {
			newest[t.User] = Erasure{t.User, t.Version, t.ErasedUntil}
		}
	}
	if len(newest) == 0 && len(erased) == 0 {
		return changes, nil
	}
	var counts []*schemas.Transition
	for _, t := range changes {
		if t.Version > max(newest[t.User].Version, erased[t.User]) {
			counts = append(counts, t)
		}
	}
	erasures := make([]Erasure, 0, len(newest))
	for _, e := range newest {
		erasures = append(erasures, e)
	}
	slices.SortFunc(erasures, func(a, b Erasure) int { return int(min(1, max(-1, a.User-b.User))) })
	return counts, erasures
}

// oldest is the least version of changes.
func oldest(changes []*schemas.Transition) schemas.Version {
	oldest := changes[0].Version
	for _, t := range changes {
		oldest = min(oldest, t.Version)
	}
	return oldest
}

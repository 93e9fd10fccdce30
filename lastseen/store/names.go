package store

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// NamesOf are the names that changes carry, one for each user, ordered by user. In int mode there
// are none, and it allocates nothing.
func NamesOf(changes []*schemas.Transition) []schemas.UserName {
	var all []schemas.UserName
	for _, t := range changes {
		if t.Name.Text != "" {
			all = append(all, schemas.UserName{User: t.User, Name: t.Name})
		}
	}
	known, _ := FoldNames(all)
	return known
}

// FoldNames makes one record for each user of records in the order of their log, ordered by user. A
// record without a name is a tombstone: its user is among erased, and what came before counts for
// nothing. Of two names of one user the first stays.
func FoldNames(records []schemas.UserName) (known []schemas.UserName, erased []schemas.UserID) {
	if len(records) == 0 {
		return nil, nil
	}
	newest := make(map[schemas.UserID]schemas.UserName, len(records))
	gone := make(map[schemas.UserID]struct{})
	for _, r := range records {
		_, met := newest[r.User]
		switch {
		case r.Name.Text == "":
			delete(newest, r.User)
			gone[r.User] = struct{}{}
		case !met:
			newest[r.User] = r
		}
	}
	for _, r := range newest {
		known = append(known, r)
	}
	slices.SortFunc(known, func(a, b schemas.UserName) int { return cmp.Compare(a.User, b.User) })
	for user := range gone {
		erased = append(erased, user)
	}
	slices.Sort(erased)
	return known, erased
}

// NameOf is the name of a user who is known by a name, and whose change has one; either may be missing.
// Of two names of one id it is none.
func NameOf(known schemas.UserName, own schemas.Name) schemas.Name {
	switch {
	case known.Name.Text == "":
		return own
	case own.Text != "" && own != known.Name:
		return schemas.Name{}
	}
	return known.Name
}

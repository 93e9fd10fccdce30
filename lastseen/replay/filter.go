package replay

import (
	"slices"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Filter selects changes; an empty field selects all.
type Filter struct {
	Users      []schemas.UserID
	States     []schemas.State // that the user changed to
	Causes     []schemas.Cause
	Partitions []int32
	// Tenant leaves out the users of others, and those whose name is not known; nil: all tenants. It needs
	// Options.Names.
	Tenant *string
	// Of is the tenant of Users, in text mode; nil: not known.
	Of *string
	// From is included, To is not; 0 leaves that end open.
	From, To schemas.Millis
	// erased are the versions by which users were erased.
	erased map[schemas.UserID]schemas.Version
	// erasures selects the erasures themselves, too.
	erasures bool
}

// wants reports whether e is selected. It does not look at the partition.
func (f *Filter) wants(e *store.Entry) bool {
	return (len(f.erased) == 0 || f.outlives(e)) && e.At >= f.From && (f.To == 0 || e.At < f.To) &&
		(len(f.Users) == 0 || slices.Contains(f.Users, e.User)) &&
		(len(f.States) == 0 || slices.Contains(f.States, e.To)) &&
		(len(f.Causes) == 0 || slices.Contains(f.Causes, e.Cause))
}

// outlives reports whether no erasure has made e void.
func (f *Filter) outlives(e *store.Entry) bool {
	erased := f.erased[e.User]
	return e.Version > erased || f.erasures && e.Version == erased && e.Cause == schemas.Erased
}

// tenant is the one of all selected users; nil: they may be of several.
func (f *Filter) tenant() *string {
	if len(f.Users) > 0 {
		return f.Of
	}
	return f.Tenant
}

// partitions are those of count in which selected users can be, ascending.
func (f *Filter) partitions(count int32) []int32 {
	var some []int32
	for p := range count {
		if len(f.Partitions) > 0 && !slices.Contains(f.Partitions, p) {
			continue
		}
		if len(f.Users) > 0 && !slices.ContainsFunc(f.Users, func(u schemas.UserID) bool { return schemas.PartitionOf(u, count) == p }) {
			continue
		}
		some = append(some, p)
	}
	return some
}

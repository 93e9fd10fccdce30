package erasure

import (
	"cmp"
	"context"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// list merges what the sources list: each user once, in the order of ids.
type list struct {
	tenant  string
	sources []Source
	limit   int
	after   schemas.UserID
}

func newList(tenant string, sources []Source, limit int) *list {
	return &list{tenant: tenant, sources: sources, limit: limit}
}

// next returns at most limit users who were not returned before; none at the end.
func (l *list) next(ctx context.Context) ([]schemas.UserName, error) {
	var all []schemas.UserName
	for _, s := range l.sources {
		names, err := s.NamesOfTenant(ctx, l.tenant, l.after, l.limit)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.SortStableFunc(all, func(a, b schemas.UserName) int { return cmp.Compare(a.User, b.User) })
	all = slices.CompactFunc(all, func(a, b schemas.UserName) bool { return a.User == b.User })
	if len(all) > l.limit {
		all = all[:l.limit] // the page of each source reaches at least as far
	}
	if len(all) > 0 {
		l.after = all[len(all)-1].User
	}
	return all, nil
}

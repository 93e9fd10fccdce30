package backtest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// people are the users whom recorded heartbeats name. Gateways name everybody again and again, so these are
// all who were present for some minutes, known from the first record on, as the detector knew them.
type people struct {
	tenants map[schemas.UserID]string
	byName  map[string][]schemas.UserID // of tenants, ordered
}

// namedIn reads whom the heartbeats name. A user of whom they have two names goes by the first.
func namedIn(ctx context.Context, from Source) (*people, error) {
	p := &people{tenants: map[schemas.UserID]string{}, byName: map[string][]schemas.UserID{}}
	tenants := map[string]string{} // one copy of each name
	var frame schemas.Frame
	err := from.Each(ctx, func(r *schemas.Record) error {
		if frame.Decode(r.Value) != nil {
			return nil
		}
		names, row := frame.Names(), schemas.NamedRow{}
		for names.Next(&row) {
			user := frame.User(row.Row)
			if _, named := p.tenants[user]; !named {
				tenant, known := tenants[string(row.Tenant)]
				if !known {
					tenant = string(row.Tenant)
					tenants[tenant] = tenant
				}
				p.tenants[user] = tenant
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading whom the heartbeats name: %w", err)
	}
	for _, user := range slices.Sorted(maps.Keys(p.tenants)) {
		tenant := p.tenants[user]
		p.byName[tenant] = append(p.byName[tenant], user)
	}
	return p, nil
}

// in calls each for the users of a tenant in a partition.
func (p *people) in(tenant string, partition, partitions int32, each func(schemas.UserID)) {
	for _, user := range p.byName[tenant] {
		if schemas.PartitionOf(user, partitions) == partition {
			each(user)
		}
	}
}

// beats counts the rows of users of a tenant.
func (p *people) beats(f *schemas.Frame, tenant string) (n int64) {
	for i := range f.Rows() {
		if of, named := p.tenants[f.User(i)]; named && of == tenant {
			n++
		}
	}
	return n
}

//go:build unix

package storm_test

import (
	"fmt"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// half is how often something happens in one of the two storms, if it is to happen so often in both.
func half(times int64) int64 { return max(1, (times+1)/2) }

// named adds names to a frame with rows: that of a user whom the gateway has not named yet, and some again.
// A gateway forgets one in eight, whose name comes later. Forged: one row has the name of somebody else.
func (l *load) named(g *loadGateway, value []byte, rows []schemas.Beat, forged bool) []byte {
	if l.names == nil {
		return value
	}
	at := -1
	if forged {
		at = l.random.IntN(len(rows))
	}
	for i, row := range rows {
		switch name := l.names[row.User]; {
		case i == at:
			name.Tenant += "x"
			value = schemas.AppendNamedRow(value, i, name)
		case row.Bye, g.named[row.User] && l.random.IntN(10) != 0, l.random.IntN(8) == 0:
		default:
			g.named[row.User] = true
			value = schemas.AppendNamedRow(value, i, name)
		}
	}
	return value
}

// visibility is a change that a user with a name asks for; some records do not say the name, and few say
// that of somebody else.
func (l *load) visibility(user schemas.UserID, to schemas.Visibility) []byte {
	name := l.names[user]
	switch n := l.random.IntN(8); {
	case l.names == nil, n < 2:
		return schemas.AppendVisibility(nil, user, to)
	case n == 2:
		name.Tenant += "x"
	}
	return schemas.AppendNamedVisibility(nil, user, to, name)
}

// policies changes the policy of a tenant in one partition.
func (l *load) policies(p int32) {
	t := schemas.TenantPolicy{Tenant: l.mode.Tenants[l.random.IntN(len(l.mode.Tenants))]}
	if l.random.IntN(4) > 0 {
		own := l.policy
		own.OnlineTTL, own.AwayTTL = own.OnlineTTL+between(l.random, 1e6, 1e9), between(l.random, 1e9, 8e9)
		t.Policy = &own
	}
	l.append(p, schemas.AppendTenantPolicy(nil, t))
}

// forged reports whether a frame has a name that is not the user's, or names in int mode.
func (s *storm) forged(f *schemas.Frame) bool {
	users := s.mode.Users()
	names, row := f.Names(), schemas.NamedRow{}
	for names.Next(&row) {
		if !users.Is(f.User(row.Row), row.User()) {
			return true
		}
	}
	return f.VisibilityName != (schemas.Name{}) && !users.Is(f.VisibilityUser, f.VisibilityName)
}

// isCalled checks a name that was written for a user; the zero value is that of a user whose name is not known.
func (j *judgement) isCalled(where string, user schemas.UserID, name schemas.Name) {
	j.Helper()
	if name == (schemas.Name{}) {
		return
	}
	if j.named++; name != j.people[user] {
		j.Errorf("%s has the name %s for user %d, who is %s", where, name, user, j.people[user])
	}
}

// namesTopic checks that the topic of names has everybody whom the heartbeats name, by that name alone.
func (j *judgement) namesTopic(p int32) {
	j.Helper()
	found := map[schemas.UserID]bool{}
	err := j.reader.Read(j.Context(), schemas.Names, p, -1, -1, true, func(r *schemas.Record) error {
		n, err := schemas.DecodeUserName(r.Value)
		if err != nil {
			return fmt.Errorf("record %d of the names, partition %d: %w", r.Offset, p, err)
		}
		j.isCalled("the topic of names", n.User, n.Name)
		found[n.User] = true
		return nil
	})
	must.Do(j, err)
	for user := range j.saidIn[p] {
		if !found[user] {
			j.Errorf("user %d is named in the heartbeats of partition %d, and not in the topic of names", user, p)
		}
	}
}

// says notes whom a frame names for good.
func (j *judgement) says(p int32, f *schemas.Frame) {
	note := func(user schemas.UserID, name schemas.Name) {
		if schemas.PartitionOf(user, stormPartitions) == p && j.mode.Users().Is(user, name) {
			j.saidIn[p][user] = true
		}
	}
	names, row := f.Names(), schemas.NamedRow{}
	for names.Next(&row) {
		note(f.User(row.Row), row.User())
	}
	if f.VisibilityName != (schemas.Name{}) {
		note(f.VisibilityUser, f.VisibilityName)
	}
}

package storetest

import (
	"maps"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var (
	ann = schemas.Name{Text: "ann, o'Hara \"ü\" \\ {NULL}"}
	bob = schemas.Name{Tenant: "acme", Text: "6f9619ff-8b86-d011-b42d-00c04fc964ff"}
	eve = schemas.Name{Text: "eve"}
)

// called gives the changes a name.
func called(name schemas.Name, changes []*schemas.Transition) []*schemas.Transition {
	for _, t := range changes {
		t.Name = name
	}
	return changes
}

// wantNames wants the names of users 1 to 9 to be these and no others.
func wantNames(t *testing.T, s Store, want ...schemas.UserName) {
	t.Helper()
	known := map[schemas.UserID]schemas.UserName{}
	for _, n := range want {
		known[n.User] = n
	}
	got, err := s.Names(t.Context(), []schemas.UserID{1, 2, 3, 4, 5, 6, 7, 8, 9})
	if must.Do(t, err); !maps.Equal(got, known) {
		t.Fatalf("the names are %v, want %v", got, known)
	}
	one, err := s.Names(t.Context(), nil)
	if must.Do(t, err); len(one) != 0 {
		t.Fatalf("nobody is called %v", one)
	}
}

func namesOfChanges(t *testing.T, s Store) {
	write(t, s, append(called(ann, visits(1, Start)), append(called(bob, visits(2, Start)), visits(3, Start)...)...))
	wantNames(t, s, schemas.UserName{User: 1, Name: ann}, schemas.UserName{User: 2, Name: bob})
	at := must.Get(s.Position(t.Context(), 0))(t)
	// Of one batch as of two.
	both := append(called(ann, visits(4, Start+9)), called(bob, visits(4, Start+99))...)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next, Next: at.Next + 9, Changes: append(called(eve, visits(1, Start+9)), both...)}))
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next + 9, Next: at.Next + 18, Changes: called(ann, visits(1, Start+999))}))
	wantNames(t, s, schemas.UserName{User: 1, Name: ann}, schemas.UserName{User: 2, Name: bob}, schemas.UserName{User: 4, Name: ann})
}

func namesOfTheTopic(t *testing.T, s Store) {
	for range 2 { // the records may come again
		must.Do(t, s.WriteNames(t.Context(), []schemas.UserName{{User: 1, Name: ann}, {User: 2, Name: bob}, {User: 1, Name: ann}}))
		wantNames(t, s, schemas.UserName{User: 1, Name: ann}, schemas.UserName{User: 2, Name: bob})
	}
	must.Do(t, s.WriteNames(t.Context(), nil))
	must.Do(t, s.WriteNames(t.Context(), []schemas.UserName{{User: 1}, {User: 1, Name: bob}, {User: 2, Name: eve}, {User: 3, Name: ann}}))
	wantNames(t, s, schemas.UserName{User: 1, Name: bob}, schemas.UserName{User: 2, Name: bob}, schemas.UserName{User: 3, Name: ann})
	must.Do(t, s.WriteNames(t.Context(), []schemas.UserName{{User: 2, Name: eve}, {User: 2}, {User: 3, Name: eve}}))
	wantNames(t, s, schemas.UserName{User: 1, Name: bob}, schemas.UserName{User: 3, Name: ann})
}

func namesOfErased(t *testing.T, s Store) {
	log := append(called(ann, visits(1, Start)), called(bob, visits(2, Start))...)
	write(t, s, log)
	append1 := func(changes ...*schemas.Transition) {
		t.Helper()
		at := must.Get(s.Position(t.Context(), 0))(t)
		must.Do(t, s.Append(t.Context(), store.Batch{Expected: at.Next, Next: at.Next + 1, Changes: changes}))
	}
	append1(erasing(1, Start+day, 100))
	append1(log...) // as after a reset of offsets
	wantNames(t, s, schemas.UserName{User: 2, Name: bob})
	back := called(ann, visits(1, Start+2*day))
	for i, change := range back {
		change.Version = schemas.NewVersion(1, int64(200+i), 0)
	}
	append1(append([]*schemas.Transition{erasing(1, Start+day, 100)}, back...)...)
	wantNames(t, s, schemas.UserName{User: 1, Name: ann}, schemas.UserName{User: 2, Name: bob})
}

func usersOfTenants(t *testing.T, s Store) {
	acme := func(text string) schemas.Name { return schemas.Name{Tenant: "acme", Text: text} }
	first := append(called(ann, visits(1, Start)), append(called(acme("b"), visits(5, Start)), called(acme("a"), visits(2, Start, Start+day))...)...)
	write(t, s, first)
	must.Do(t, s.WriteNames(t.Context(), []schemas.UserName{{User: 9, Name: acme("c")}, {User: 7, Name: eve}}))
	for _, c := range []struct {
		tenant string
		after  schemas.UserID
		limit  int
		want   []schemas.UserID
	}{
		{"acme", 0, 10, []schemas.UserID{2, 5, 9}}, {"acme", 0, 2, []schemas.UserID{2, 5}}, {"acme", 5, 2, []schemas.UserID{9}},
		{"acme", 9, 2, nil}, {"", 0, 10, []schemas.UserID{1, 7}}, {"nobody", 0, 10, nil},
	} {
		names := must.Get(s.NamesOfTenant(t.Context(), c.tenant, c.after, c.limit))(t)
		var got []schemas.UserID
		for _, n := range names {
			if got = append(got, n.User); n.Name.Tenant != c.tenant {
				t.Errorf("user %d of tenant %q is listed for %q", n.User, n.Name.Tenant, c.tenant)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after user %d tenant %q has %v, want %v", c.after, c.tenant, got, c.want)
		}
	}
	hidden := visits(3, Start)[:1]
	hidden[0].Visibility = schemas.Nobody
	away := visits(4, Start)[:1]
	away[0].To = schemas.Away
	more := append(append(called(acme("here"), visits(6, Start)[:1]), called(acme("away"), away)...), called(acme("hidden"), hidden)...)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: int64(len(first)), Next: int64(len(first) + len(more)), Changes: more}))
	one, both := int64(len(visits(1, Start))), int64(len(visits(2, Start, Start+day)))
	for changes, want := range map[bool][]store.TenantSize{
		false: {{Tenant: "", Users: 2, Online: 1}, {Tenant: "acme", Users: 6, Online: 2, Away: 1}},
		true:  {{Tenant: "", Users: 2, Online: 1, Changes: one}, {Tenant: "acme", Users: 6, Online: 2, Away: 1, Changes: one + both + 3}},
	} {
		if got, err := s.TenantSizes(t.Context(), changes); err != nil || !slices.Equal(got, want) {
			t.Errorf("the sizes are %+v (%v), want %+v", got, err, want)
		}
	}
}

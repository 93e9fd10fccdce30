package graph_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

var (
	named = identity.Named(identity.Key{1})
	ann   = schemas.Name{Tenant: "acme", Text: "ann, née O'Neil"}
	bob   = schemas.Name{Text: "bob"}
)

func keepNames(t *testing.T, s *graph.Store) {
	before, err := s.Named(t.Context())
	want(t, "named", before, false, err)
	names := graph.Names{1: ann, 2: bob}
	for range 2 {
		_, _, err = s.Change(t.Context(), []graph.Edge{{User: 1, Follower: 2}}, nil, names)
		want(t, "change", 0, 0, err)
	}
	_, err = s.Load(t.Context(), "a.csv", 0, 10, []graph.Edge{{User: 1, Follower: 3}}, graph.Names{1: ann, 3: bob})
	want(t, "load", 0, 0, err)
	_, _, err = s.Apply(t.Context(), "log", 0, 10, []graph.Edge{{User: 1, Follower: 4}}, nil, graph.Names{1: ann, 4: bob})
	want(t, "apply", 0, 0, err)
	all, err := s.Names(t.Context(), []schemas.UserID{1, 2, 3, 4, 5})
	if err != nil || !maps.Equal(all, graph.Names{1: ann, 2: bob, 3: bob, 4: bob}) {
		t.Errorf("%v, %v", all, err)
	}
	after, err := s.Named(t.Context())
	want(t, "named", after, true, err)
	want(t, "forget", 0, 0, s.Forget(t.Context(), 1))
	if all, err = s.Names(t.Context(), []schemas.UserID{1, 2}); err != nil || !maps.Equal(all, graph.Names{2: bob}) {
		t.Errorf("after user 1 is forgotten: %v, %v", all, err)
	}
}

func collide(t *testing.T, s *graph.Store) {
	_, _, err := s.Change(t.Context(), []graph.Edge{{User: 1, Follower: 2}}, nil, graph.Names{1: ann, 2: bob})
	want(t, "change", 0, 0, err)
	other := graph.Names{1: bob, 3: bob}
	add := []graph.Edge{{User: 1, Follower: 3}}
	for what, change := range map[string]func() error{
		"change": func() error { _, _, err := s.Change(t.Context(), add, nil, other); return err },
		"load":   func() error { _, err := s.Load(t.Context(), "a.csv", 0, 10, add, other); return err },
		"apply":  func() error { _, _, err := s.Apply(t.Context(), "log", 0, 10, add, nil, other); return err },
	} {
		var collision *graph.CollisionError
		if err := change(); !errors.As(err, &collision) || collision.User != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
	page, err := s.Page(t.Context(), nil, 1, 0, graph.LastID, 10)
	same(t, "followers", page, []schemas.UserID{2}, err)
	position, err := s.Loaded(t.Context(), "a.csv")
	want(t, "position", position, 0, err)
}

// collideAtOnce has two writers bring two names of one id, again and again.
func collideAtOnce(t *testing.T, s *graph.Store) {
	for user := schemas.UserID(1); user <= 30; user++ {
		var writers sync.WaitGroup
		begin, results := make(chan struct{}), make(chan error, 2)
		for i, name := range []schemas.Name{ann, bob} {
			writers.Go(func() {
				<-begin
				_, _, err := s.Change(t.Context(), []graph.Edge{{User: user, Follower: 100}}, nil, graph.Names{user: name, 100 + schemas.UserID(i): bob})
				results <- err
			})
		}
		close(begin)
		writers.Wait()
		var collision *graph.CollisionError
		if one, two := <-results, <-results; (one == nil) == (two == nil) || !errors.As(cmp.Or(one, two), &collision) || collision.User != user {
			t.Fatalf("%v, %v", one, two)
		}
	}
}

func follows(user, follower schemas.Name) schemas.Follow {
	return schemas.Follow{User: named.ID(user.Tenant, user.Text), Follower: named.ID(follower.Tenant, follower.Text), Names: [2]schemas.Name{user, follower}}
}

func TestRecordsOfTheGraphMustHaveTheNamesOfTheirIDs(t *testing.T) {
	t.Parallel()
	carl := schemas.Name{Text: "carl"}
	good := follows(bob, carl)
	forged, stranger, unnamed := good, good, good
	forged.User++
	stranger.Follower++
	unnamed.Names = [2]schemas.Name{}
	removal := unnamed
	removal.Removed = true
	for _, c := range []struct {
		what  string
		users identity.Users
		f     schemas.Follow
		code  string
	}{
		{"a follower", named, good, ""},
		{"another user's id", named, forged, "id_mismatch"},
		{"another follower's id", named, stranger, "id_mismatch"},
		{"no names", named, unnamed, "name_missing"},
		{"a removal", named, removal, ""},
		{"names in int mode", identity.Users{}, good, "names_in_int_mode"},
		{"int mode", identity.Users{}, unnamed, ""},
	} {
		_, err := graph.DecodeFollow(c.users)(&schemas.Record{Key: c.f.Key(), Value: c.f.Encode()})
		var bad *schemas.FieldError
		if errors.As(err, &bad) != (c.code != "") || bad != nil && bad.Code != c.code {
			t.Errorf("%s: %v, want %q", c.what, err, c.code)
		}
	}
}

func TestALogAppliesAllEdgesButThoseOfASecondNameOfAnID(t *testing.T) {
	t.Parallel()
	s := open(t)
	a := graph.NewApplier(s, "presence.graph", nil)
	must.Get(a.Start(t.Context(), stream.Assignment{LogEnd: 10}))(t)
	twin := schemas.Follow{User: 7, Follower: 8, Names: [2]schemas.Name{bob, ann}}
	other := schemas.Follow{User: 7, Follower: 9, Names: [2]schemas.Name{ann, bob}}
	fine := schemas.Follow{User: 10, Follower: 11, Names: [2]schemas.Name{ann, bob}}
	must.Do(t, a.Apply(t.Context(), stream.Batch[schemas.Follow]{Items: []schemas.Follow{twin}, Next: 1}))
	must.Do(t, a.Apply(t.Context(), stream.Batch[schemas.Follow]{Items: []schemas.Follow{other, fine}, Next: 3}))
	page, err := s.Page(t.Context(), nil, 7, 0, graph.LastID, 10)
	same(t, "followers of 7", page, []schemas.UserID{8}, err)
	page, err = s.Page(t.Context(), nil, 10, 0, graph.LastID, 10)
	same(t, "followers of 10", page, []schemas.UserID{11}, err)
}

func TestAFileOfNamesIsLoaded(t *testing.T) {
	t.Parallel()
	s := open(t)
	text := "user_id,follower_id\nbob,carl\n" + ann.Text + "\tbob\nbob,bob\nbob," + strings.Repeat("x", 200) + "\n"
	var bad []int64
	report, err := graph.Load(t.Context(), s, strings.NewReader(text), graph.LoadOptions{Name: "names.csv", Size: int64(len(text)),
		Users: named, Tenant: "acme", Bad: func(line int64, _ error) { bad = append(bad, line) }})
	if err != nil || report.Added != 2 || fmt.Sprint(bad) != "[4 5]" {
		t.Errorf("%+v, bad lines %v, %v", report, bad, err)
	}
	id := named.ID(ann.Tenant, ann.Text)
	page, err := s.Page(t.Context(), nil, id, 0, graph.LastID, 10)
	same(t, "followers", page, []schemas.UserID{named.ID("acme", "bob")}, err)
	names, err := s.Names(t.Context(), []schemas.UserID{id})
	want(t, "name", names[id], ann, err)
}

func TestALineThatCouldBeOfOtherUsersIsRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]string{
		"a,b":           {"a", "b"},
		`"a,1",b`:       {"a,1", "b"},
		`"a ""x""","b"`: {`a "x"`, "b"},
		"a,1\tb":        {"a,1", "b"},
		"\"a\"\tb":      {`"a"`, "b"},
		`"a"," b "`:     {"a", " b "},
		"a\t b":         {"a", " b"},
		"a, b":          {},
		"a ,b":          {},
		"a,b,c":         {},
		`"a,b`:          {},
		`a"x",b`:        {},
		`"a"x,b`:        {},
		`"a,b",c,d`:     {},
		"a":             {},
		",b":            {},
	} {
		edge, names, err := graph.ParseEdge(named, "acme", []byte(line))
		if want == ([2]string{}) {
			if err == nil {
				t.Errorf("%q is read as %q", line, names)
			}
			continue
		}
		if got := [2]string{names[0].Text, names[1].Text}; err != nil || got != want || edge.User != named.ID("acme", want[0]) {
			t.Errorf("%q is read as %q, %v, want %q", line, got, err, want)
		}
	}
}

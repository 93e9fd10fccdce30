package storetest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// wantForgotten wants the store to say that the instant is before its log begins, and
// to name the beginning.
func wantForgotten(t *testing.T, s Store, at schemas.Millis, user schemas.UserID) {
	t.Helper()
	begins := must.Get(s.LogBegins(t.Context()))(t)
	told := 0
	err := s.AsOf(t.Context(), at, user, func(*store.Entry) error { told++; return nil })
	var forgotten *store.ForgottenError
	if !errors.As(err, &forgotten) || forgotten.Asked != at || forgotten.Begins != begins || begins <= at || told != 0 {
		t.Errorf("at %s, of a log from %s on, %d entries of user %d and the error %v", at, begins, told, user, err)
	}
}

// completeLog has what a program would write that is told of a log only from its middle on
// as well: nothing is known from before the first change, and nobody is here then.
func completeLog(t *testing.T, s Store) {
	log := visits(1, Start+day, Start+2*day, Start+3*day)
	half := visits(2, Start, Start+4*day)[1:]
	write(t, s, append(log, half...))
	if begins, err := s.LogBegins(t.Context()); err != nil || begins != 0 {
		t.Errorf("a log of which nothing was dropped begins at %s (%v)", begins, err)
	}
	for at, want := range map[schemas.Millis]map[schemas.UserID]schemas.State{
		Start - 9*day:   {},
		Start + day - 1: {},
		Start + day:     {1: schemas.Online, 2: schemas.Online},
		Start + 4*day:   {1: schemas.Online, 2: schemas.Offline},
	} {
		told := asOf(t, s, at, 0)
		for user := range schemas.UserID(2) {
			if told[user+1].To != want[user+1] {
				t.Errorf("at %s user %d was %v, is told as %v", at, user+1, want[user+1], told[user+1].To)
			}
			wantAsOne(t, s, at, user+1, told)
		}
	}
}

// asOf is what is told of users, each of whom must be told of once.
func asOf(t *testing.T, s Store, at schemas.Millis, user schemas.UserID) map[schemas.UserID]store.Entry {
	t.Helper()
	told := map[schemas.UserID]store.Entry{}
	must.Do(t, s.AsOf(t.Context(), at, user, func(e *store.Entry) error {
		if _, twice := told[e.User]; twice || user != 0 && e.User != user || e.At > at || e.From != e.To {
			t.Errorf("at %s of user %d: %+v", at, user, e.Transition)
		}
		told[e.User] = *e
		return nil
	}))
	return told
}

// wantAsOne wants the question of one user to be answered as the one of all was.
func wantAsOne(t *testing.T, s Store, at schemas.Millis, user schemas.UserID, all map[schemas.UserID]store.Entry) {
	t.Helper()
	one := asOf(t, s, at, user)
	if want, known := all[user]; len(one) > 1 || one[user] != want || known != (len(one) == 1) {
		t.Errorf("at %s user %d is told as\n%+v, among all as\n%+v", at, user, one[user].Transition, want.Transition)
	}
}

// randomPast writes a random history of some days and drops its start, by turns.
func randomPast(t *testing.T, s Store) {
	const (
		users  = 30
		length = 420
		stages = 7
	)
	random := rand.New(rand.NewPCG(11, uint64(Start)))
	log := RandomLog(random.Uint64(), users, length)
	for i, change := range log {
		change.At = Start + schemas.Millis(i)*day/20 + schemas.Millis(random.IntN(3)*500) // 21 days
	}
	expected, edges := store.Unknown, map[schemas.Millis]bool{}
	for stage := range stages {
		through := (stage + 1) * length / stages
		must.Do(t, s.Append(t.Context(), store.Batch{Expected: expected, Next: int64(through), Changes: log[through-length/stages : through]}))
		expected = int64(through)
		if stage > 0 { // up to what is hardly older than the newest change
			forget(t, s, log[through-1-random.IntN(length/stages)].At)
		}
		begins := must.Get(s.LogBegins(t.Context()))(t)
		edges[begins] = true
		written := log[:through]
		kept := slices.DeleteFunc(slices.Clone(written), func(c *schemas.Transition) bool { return c.At < begins })
		wantChanges(t, s, store.Range{}, kept)
		instants := []schemas.Millis{begins - 2, begins - 1, begins, begins + 1, Start - day, Start - 1, written[through-1].At + 10*day}
		for range 6 {
			instants = append(instants, written[random.IntN(through)].At+schemas.Millis(random.IntN(3)-1))
		}
		for _, at := range instants {
			if at+1 < begins {
				wantForgotten(t, s, at, 0)
				wantForgotten(t, s, at, schemas.UserID(1+random.IntN(users)))
				continue
			}
			told := asOf(t, s, at, 0)
			wantTrue(t, at, begins, written, told)
			for user := range schemas.UserID(users + 1) {
				wantAsOne(t, s, at, user+1, told)
			}
		}
	}
	if len(edges) != stages {
		t.Errorf("the log began at %v", slices.Collect(maps.Keys(edges)))
	}
}

// wantTrue wants what is told to be so by all changes, and everybody to be told of who was
// not offline, or of whom the log has a change until then.
func wantTrue(t *testing.T, at, begins schemas.Millis, written []*schemas.Transition, told map[schemas.UserID]store.Entry) {
	t.Helper()
	newest := map[schemas.UserID]*schemas.Transition{}
	for _, change := range written {
		if change.At <= at {
			newest[change.User] = change
		}
	}
	for user, is := range told {
		want := newest[user]
		if want == nil || is.To != want.To || is.Visibility != want.Visibility {
			t.Errorf("at %s, of a log from %s on, user %d is told as\n%+v, was\n%+v", at, begins, user, is.Transition, want)
		} else if kept := want.At >= begins; kept && want.To != schemas.Offline && (is.At != want.At || is.Version != want.Version ||
			is.Kinds != want.Kinds || is.Override != want.Override || is.LastSeen != want.LastSeen ||
			is.LastActive != want.LastActive) {
			t.Errorf("at %s user %d is told as\n%+v, was\n%+v", at, user, is.Transition, *want)
		}
	}
	for user, was := range newest {
		if _, known := told[user]; !known && (was.To != schemas.Offline || was.At >= begins) {
			t.Errorf("at %s, of a log from %s on, nothing is told of user %d, who was\n%+v", at, begins, user, *was)
		}
	}
}

package redisview

import (
	"context"
	"errors"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func denies(t must.T, user schemas.UserID, version, before schemas.Version, add, remove []schemas.UserID) *schemas.Transition {
	return &schemas.Transition{User: user, From: schemas.Online, To: schemas.Online, At: schemas.Millis(1000 + version), Cause: schemas.AudienceSet,
		Visibility: schemas.Everyone, Version: version, AudienceBefore: before, Override: schemas.Override{Audience: version},
		Denies: must.Get(schemas.NewDenies("denies", user, add, remove))(t)}
}

func erases(user schemas.UserID, version schemas.Version) *schemas.Transition {
	return &schemas.Transition{User: user, From: schemas.Online, To: schemas.Offline, At: 1, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Version: version, ErasedUntil: 300}
}

// inContext is a *testing.T or a *rapid.T.
type inContext interface {
	must.T
	Context() context.Context
}

// writeAll does what a projector does.
func (v *View) writeAll(t inContext, log ...*schemas.Transition) {
	t.Helper()
	must.Do(t, v.WriteDenies(t.Context(), log))
	must.Get(v.Write(t.Context(), 1, store.Fold(log)))(t)
}

// denialsOf is the list as a store has it.
func denialsOf(viewers map[schemas.UserID]schemas.Millis) (list []schemas.Denial) {
	for viewer, at := range viewers {
		list = append(list, schemas.Denial{Viewer: viewer, At: at, Version: schemas.Version(max(0, at-1000))})
	}
	return list
}

// Batches come twice, in parts, and from a projector that has lost its partition; Redis loses keys; the store is behind.
func TestAListIsThatOfItsVersionWhateverComesInWhateverOrder(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	user := schemas.UserID(100)
	rapid.Check(t, func(rt *rapid.T) {
		user++
		some := func(name string) (ids []schemas.UserID) {
			for id := schemas.UserID(1); id <= 4; id++ {
				if rapid.Bool().Draw(rt, name) {
					ids = append(ids, id)
				}
			}
			return ids
		}
		var log []*schemas.Transition
		var audiences []schemas.Version // after each
		lists := map[schemas.Version]map[schemas.UserID]schemas.Millis{0: {}}
		for n, audience := rapid.IntRange(1, 8).Draw(rt, "changes"), schemas.Version(0); len(log) < n; audiences = append(audiences, audience) {
			version := schemas.Version(10 * (len(log) + 1))
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				log = append(log, &schemas.Transition{User: user, From: schemas.Online, To: schemas.Away, At: 5, Cause: schemas.Idle,
					Visibility: schemas.Everyone, Version: version, Override: schemas.Override{Audience: audience}})
			case 1:
				log, audience = append(log, erases(user, version)), 0
			default:
				viewers, list := some("viewers"), maps.Clone(lists[audience])
				change := denies(rt, user, version, audience, append(viewers, 9), nil)
				if rapid.Bool().Draw(rt, "removes") {
					change = denies(rt, user, version, audience, []schemas.UserID{9}, append(viewers, 8))
				}
				add, remove := change.Denies.Changes()
				for _, viewer := range add {
					list[viewer] = change.At
				}
				for _, viewer := range remove {
					delete(list, viewer)
				}
				log, audience, lists[version] = append(log, change), version, list
			}
		}
		check := func(at schemas.Version) bool {
			d, err := v.Denied(rt.Context(), user, at)
			if errors.Is(err, shown.ErrBehind) {
				d = shown.Denied{}
			} else if must.Do(rt, err); d.Version < at || !maps.Equal(d.Viewers, lists[d.Version]) && d.Version != 0 {
				rt.Fatalf("as of %d (wanted: %d) the list is %v, want %v", d.Version, at, d.Viewers, lists[d.Version])
			}
			for viewer := range schemas.UserID(10) {
				got := must.Get(v.Denying(rt.Context(), viewer, []schemas.UserID{user}, []schemas.Version{at}))(rt)[0]
				if want := (shown.Denying{Version: d.Version, Since: d.Viewers[viewer],
					Hidden: schemas.Version(max(0, d.Viewers[viewer]-1000))}); got != want {
					rt.Fatalf("of viewer %d: %+v, want %+v", viewer, got, want)
				}
			}
			return err == nil
		}
		fill := func(i int) {
			if at := audiences[i]; at != 0 {
				must.Do(rt, v.FillDenied(rt.Context(), user, at, denialsOf(lists[at])))
			}
		}
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			from := rapid.IntRange(0, len(log)-1).Draw(rt, "from")
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				must.Do(rt, v.client.Del(rt.Context(), v.deniedKey(user)).Err())
			case 1:
				must.Do(rt, v.client.Del(rt.Context(), v.deniedKey(user), v.userKey(user)).Err())
			case 2:
				fill(from)
			default:
				v.writeAll(rt, log[from:rapid.IntRange(from, len(log)).Draw(rt, "to")]...)
			}
			check(entry(t, v, user).Override.Audience)
			check(1)
		}
		v.writeAll(rt, log...)
		last := audiences[len(log)-1]
		if e := entry(t, v, user); e.Override.Audience != last {
			rt.Fatalf("the entry says %d, want %d", e.Override.Audience, last)
		}
		fill(len(log) - 1)
		if n := must.Get(v.client.Exists(rt.Context(), v.deniedKey(user)).Result())(rt); !check(last) || (n == 1) != (last != 0) {
			rt.Fatalf("as of %d there are %d lists", last, n)
		}
	})
}

func TestAListThatRedisLostIsUnknownAndWantedUntilItIsFilled(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		want := func(user schemas.UserID, at schemas.Version, behind bool, viewers int) {
			t.Helper()
			d, err := v.Denied(t.Context(), user, at)
			if errors.Is(err, shown.ErrBehind) != behind || !behind && err != nil || len(d.Viewers) != viewers {
				t.Errorf("user %d at %d: %v, %v", user, at, d, err)
			}
			got := must.Get(v.Denying(t.Context(), 9, []schemas.UserID{3, user}, []schemas.Version{0, at}))(t)
			if got[0] != (shown.Denying{}) || got[1].Version != d.Version || got[1].Withholds() != (d.Version == 0 || viewers > 0) {
				t.Errorf("user %d at %d: %+v", user, at, got)
			}
		}
		taken := func() map[schemas.UserID]bool {
			all := map[schemas.UserID]bool{}
			for _, user := range must.Get(v.TakeWanted(t.Context(), 20))(t) {
				all[user] = true
			}
			return all
		}
		want(1, 0, false, 0)
		first, second := denies(t, 1, 10, 0, []schemas.UserID{9}, nil), denies(t, 1, 20, 10, nil, []schemas.UserID{9})
		v.writeAll(t, first)
		want(1, 10, false, 1)
		want(1, 11, true, 0)
		if again := taken(); !again[1] {
			t.Errorf("the list that is older than asked for is not among %v", again)
		}
		v.writeAll(t, second)
		v.writeAll(t, first, second) // again
		want(1, 20, false, 0)        // nobody is denied any more, and that is known
		left := must.Get(v.client.PTTL(t.Context(), v.deniedKey(1)).Result())(t)
		if left > 0 {
			t.Errorf("the list lives %v", left)
		}
		v.writeAll(t, denies(t, 1, 30, 25, []schemas.UserID{8}, nil))
		want(1, 1, true, 0)
		v.writeAll(t, first, second) // by a projector that has lost its partition
		want(1, 1, true, 0)
		if wanted := taken(); !wanted[1] || len(taken()) != 0 {
			t.Errorf("wanted are %v", wanted)
		}
		must.Do(t, v.FillDenied(t.Context(), 1, 20, nil)) // the store is behind
		want(1, 20, true, 0)
		must.Do(t, v.FillDenied(t.Context(), 1, 30, []schemas.Denial{{Viewer: 9, At: 3}, {Viewer: 8, At: 1030}}))
		want(1, 30, false, 2)
		must.Do(t, v.FillDenied(t.Context(), 1, 35, []schemas.Denial{{Viewer: 9, At: 3}}))
		want(1, 30, false, 1)
		v.writeAll(t, erases(1, 40))
		v.writeAll(t, first)
		must.Do(t, v.FillDenied(t.Context(), 1, 30, []schemas.Denial{{Viewer: 9, At: 3}}))
		want(1, 0, false, 0)
		v.writeAll(t, denies(t, 1, 50, 0, []schemas.UserID{9}, nil))
		want(1, 50, false, 1)
	})
}

func TestTheLongestListIsFilledAndRead(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		v.writeAll(t, &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: 5, Cause: schemas.FirstBeat,
			Visibility: schemas.Everyone, Version: 8, Override: schemas.Override{Audience: 7}, Name: schemas.Name{Text: "ann"}})
		viewers := map[schemas.UserID]schemas.Millis{}
		for i := range schemas.MaxDenied {
			viewers[schemas.UserID(1<<62-i)] = schemas.Millis(i + 1)
		}
		must.Do(t, v.FillDenied(t.Context(), 1, 7, denialsOf(viewers)))
		if d, err := v.Denied(t.Context(), 1, 7); err != nil || d.Version != 7 || !maps.Equal(d.Viewers, viewers) {
			t.Errorf("%d viewers as of %d, %v", len(d.Viewers), d.Version, err)
		}
		// An update without a name keeps the one that follows the version.
		v.writeAll(t, denies(t, 1, 9, 7, []schemas.UserID{5}, nil))
		if e := entry(t, v, 1); e.Override.Audience != 9 || e.NameSum != NameSum(schemas.Name{Text: "ann"}) {
			t.Errorf("the entry is %+v", e)
		}
		if d, err := v.Denied(t.Context(), 1, 9); err != nil || len(d.Viewers) != schemas.MaxDenied+1 {
			t.Errorf("%d viewers, %v", len(d.Viewers), err)
		}
	})
}

func TestAnEmptiedRedisDoesNotKnowWhomAUserDenies(t *testing.T) {
	t.Parallel()
	eachEmptied(t, func(e *emptied) {
		e.view.writeAll(e.T, denies(e.T, 1, 10, 0, []schemas.UserID{9}, nil))
		e.server.FlushAll()
		must.Do(e, e.view.FillDenied(e.Context(), 1, 10, nil)) // no entry says that the user was not erased
		if d, err := e.view.Denied(e.Context(), 1, 10); !errors.Is(err, shown.ErrBehind) {
			e.Errorf("%+v, %v", d, err)
		}
	})
}

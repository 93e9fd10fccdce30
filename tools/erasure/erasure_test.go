//go:build synctests

package erasure

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// users are a source, which the pipeline changes meanwhile.
type users struct {
	mu  sync.Mutex
	ids map[schemas.UserID]bool
}

func (u *users) NamesOfTenant(_ context.Context, tenant string, after schemas.UserID, limit int) (names []schemas.UserName, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(u.ids)) {
		if id > after && len(names) < limit {
			names = append(names, schemas.UserName{User: id, Name: schemas.Name{Tenant: tenant, Text: id.String()}})
		}
	}
	return names, nil
}

func (u *users) add(id schemas.UserID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ids[id] = true
}

func (u *users) remove(id schemas.UserID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
}

func listed(ids ...schemas.UserID) *users {
	u := &users{ids: map[schemas.UserID]bool{}}
	for _, id := range ids {
		u.add(id)
	}
	return u
}

func TestAllUsersAreErasedAtTheRateAndThoseWhoComeLaterToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, graph := listed(), listed(3, 30_000, 40_000)
		for id := range schemas.UserID(2500) {
			store.add(id + 1)
		}
		met := map[schemas.UserID]int{}
		o := Defaults()
		o.Tenant, o.Sources = "acme", []Source{store, graph}
		o.Erase = func(_ context.Context, names []schemas.UserName) error {
			for _, n := range names {
				met[n.User]++
			}
			go func() { // the pipeline
				time.Sleep(time.Second)
				for _, n := range names {
					store.remove(n.User)
					graph.remove(n.User)
				}
			}()
			return nil
		}
		go func() { // a name that the first pass has passed by
			time.Sleep(2500 * time.Millisecond)
			store.add(1)
		}()
		if n, err := Count(t.Context(), "acme", o.Sources); n != 2502 || err != nil {
			t.Errorf("%d users are listed (%v)", n, err)
		}
		began := time.Now()
		done, err := Run(t.Context(), o)
		if err != nil || done.Left != 0 || done.Passes != 2 || done.Erased != 2503 || met[1] != 2 || met[3] != 1 || len(met) != 2502 {
			t.Errorf("%+v, %v; %d users met", done, err, len(met))
		}
		if took := time.Since(began); took < 2502*time.Millisecond {
			t.Errorf("2,502 users took %s", took)
		}
		synctest.Wait()
	})
}

func TestUsersWhoStayAreErasedAgainAndThenReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Defaults()
		o.Sources, o.Erase = []Source{listed(1, 2)}, func(context.Context, []schemas.UserName) error { return nil }
		done, err := Run(t.Context(), o)
		if want := (Result{Erased: 10, Passes: 5, Left: 2}); err != nil || done != want {
			t.Errorf("%+v, %v; want %+v", done, err, want)
		}
	})
}

func TestARunEndsWithItsContextAndWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Defaults()
		fault := errors.New("the broker does not answer")
		o.Sources, o.Erase = []Source{listed(1)}, func(context.Context, []schemas.UserName) error { return fault }
		if done, err := Run(t.Context(), o); !errors.Is(err, fault) || done.Erased != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		o.Erase = func(context.Context, []schemas.UserName) error { return nil }
		if done, err := Run(ctx, o); !errors.Is(err, context.DeadlineExceeded) || done.Erased != 1 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

package delivery

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// hide is the transition with which a user hides, as a channel may know it.
func hide(offset int64, user schemas.UserID, version schemas.Version) Item {
	i := item(offset, user, version)
	i.Delivery.Transition.Cause, i.Delivery.Transition.Visibility = schemas.VisibilityChange, schemas.Nobody
	return i
}

func TestAChannelOfAllTransitionsSendsEachVersionOnceInOrderThroughFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := map[schemas.Version]int{}
		f := &fake{fail: func(n Notice) error {
			if tries[n.Transition.Version]++; n.Transition.User == 7 && tries[n.Transition.Version] < 3 {
				return errAway
			}
			return nil
		}}
		c, l := newConsumer(t, Defaults(), f)
		items := []Item{item(1, 7, 10), item(2, 7, 11), item(3, 7, 10), item(4, 8, 10), item(5, 7, 12), item(6, 7, 12)}
		must.Do(t, apply(c, t.Context(), batch(items...)))
		got := map[schemas.UserID][]schemas.Version{}
		for _, n := range f.told {
			got[n.Transition.User] = append(got[n.Transition.User], n.Transition.Version)
			if n.Recipients != nil || n.ID != n.Transition.EventID().String() {
				t.Errorf("notice %s with recipients %v", n.ID, n.Recipients)
			}
		}
		if !slices.Equal(got[7], []schemas.Version{10, 11, 12}) || !slices.Equal(got[8], []schemas.Version{10}) || len(l.reasons) != 0 {
			t.Errorf("sent %v, dead letters %v", got, l.reasons)
		}
	})
}

// Version 12 is the hide. What comes after it in hiding is decoded to nothing.
func TestOfAUserWhoHidesAChannelOfAllTransitionsSendsTheHideAndNothingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(time.Second)
		f := &fake{fail: func(Notice) error {
			if time.Now().Before(up) {
				return errAway
			}
			return nil
		}}
		var hidden atomic.Int64 // the newest transition of the hidden user
		c, err := NewConsumer(Defaults(), f.Deliver, func(_ schemas.UserID, version schemas.Version) bool { return hidden.Load() > int64(version) },
			nil, NewMetrics(nil), slog.New(slog.DiscardHandler))
		must.Do(t, err)
		must.Do(t, c.Apply(t.Context(), batch(item(1, 7, 10), item(2, 7, 11))))
		synctest.Wait()
		hidden.Store(14)
		must.Do(t, apply(c, t.Context(), batch(hide(3, 7, 12), Item{Record: schemas.Record{Offset: 4}}, Item{Record: schemas.Record{Offset: 5}})))
		if len(f.told) != 1 || f.told[0].Transition.Version != 12 {
			t.Errorf("sent %v, want the hide alone", f.told)
		}
	})
}

func TestATransitionThatTheChannelMayNotKnowIsDecodedToNothingAndABadOneRefused(t *testing.T) {
	t.Parallel()
	shown := item(1, 7, 10).Delivery.Transition
	secret := *shown
	secret.Visibility = schemas.Nobody
	list := *shown
	list.Cause = schemas.AudienceSet
	decode := transitions(
		func(schemas.Topic, *schemas.Record, *schemas.Transition) error { return nil },
		func(t *schemas.Transition) (*schemas.Transition, bool) { return t, t.Visibility != schemas.Nobody })
	for name, c := range map[string]struct {
		value      []byte
		sends, bad bool
	}{"shown": {shown.Encode(), true, false}, "hidden": {secret.Encode(), false, false},
		"whom the user denies": {list.Encode(), false, false}, "garbage": {[]byte{0xff}, false, true}} {
		got, err := decode(&schemas.Record{Value: c.value})
		if (got.Delivery != nil) != c.sends || schemas.IsInvalid(err) != c.bad {
			t.Errorf("%s: %v, %v", name, got.Delivery, err)
		}
	}
	refuse := transitions(func(schemas.Topic, *schemas.Record, *schemas.Transition) error { return context.DeadlineExceeded }, nil)
	if _, err := refuse(&schemas.Record{Value: shown.Encode()}); err == nil {
		t.Error("a transition that the check refuses is accepted")
	}
}

// Version 12 is the erasure. A second consumer stands for a restart.
func TestNothingFromBeforeAnErasureIsSentNotEvenAHideAndNotAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var erased atomic.Int64
		up := time.Now().Add(time.Second)
		f := &fake{fail: func(Notice) error {
			if time.Now().Before(up) {
				return errAway
			}
			return nil
		}}
		consumer := func() *Consumer {
			c, err := NewConsumer(Defaults(), f.Deliver, nil, nil, NewMetrics(nil), slog.New(slog.DiscardHandler))
			must.Do(t, err)
			c.WithholdErased(func(user schemas.UserID, version schemas.Version) bool {
				return user == 7 && erased.Load() > int64(version)
			})
			return c
		}
		c := consumer()
		must.Do(t, c.Apply(t.Context(), batch(item(1, 7, 10), hide(2, 7, 11), item(3, 8, 10))))
		synctest.Wait()
		erased.Store(12)
		must.Do(t, apply(c, t.Context(), batch(item(4, 7, 12), item(5, 7, 13))))
		must.Do(t, apply(consumer(), t.Context(), batch(item(1, 7, 10), hide(2, 7, 11), item(4, 7, 12))))
		var sent []schemas.Version
		for _, n := range f.told {
			if n.Transition.User == 7 {
				sent = append(sent, n.Transition.Version)
			}
		}
		if !slices.Equal(sent, []schemas.Version{12, 13, 12}) || len(f.told) != 4 {
			t.Errorf("sent %v of the erased user, %d in all", sent, len(f.told))
		}
	})
}

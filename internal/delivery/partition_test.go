package delivery

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestDeliveriesToOneRecipientStayInOrderThroughFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := map[schemas.Version]int{}
		f := &fake{fail: func(n Notice) error {
			if tries[n.Transition.Version]++; n.Transition.User == 7 && n.Transition.Version%2 == 0 && tries[n.Transition.Version] < 4 {
				return errAway
			}
			return nil
		}}
		c, l := newConsumer(t, Defaults(), f)
		for version := schemas.Version(10); version < 30; version++ {
			must.Do(t, c.Apply(t.Context(), batch(item(int64(version), 7, version, 1))))
		}
		c.partition(t.Context(), 3).work.Wait()
		var got []schemas.Version
		for _, n := range f.told {
			got = append(got, n.Transition.Version)
		}
		if len(got) != 20 || !slices.IsSorted(got) || len(l.reasons) != 0 {
			t.Errorf("told %v, dead letters %v", got, l.reasons)
		}
		if first, inHand := c.Finish(t.Context(), 3); inHand {
			t.Errorf("%d is still in hand", first)
		}
	})
}

func TestNoMoreThanTheQueueHoldsIsInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := Defaults()
		config.Queue, config.Attempts = 5, 3
		c, l := newConsumer(t, config, &fake{fail: awayFor7})
		var wait sync.WaitGroup
		wait.Go(func() {
			for i := range int64(9) {
				if err := c.Apply(t.Context(), batch(item(i, 7, schemas.Version(10+i), 1))); err != nil {
					t.Error(err)
				}
			}
		})
		synctest.Wait()
		p := c.partition(t.Context(), 3)
		p.mu.Lock()
		n := p.inHand.Len()
		p.mu.Unlock()
		if n != 5 {
			t.Errorf("%d in hand, want 5", n)
		}
		wait.Wait()
		p.work.Wait()
		if len(l.reasons) != 9 {
			t.Errorf("%d dead letters, want 9", len(l.reasons))
		}
		c.Finish(t.Context(), 3)
	})
}

// A dead letter that cannot be written holds back its offset, and the user.
func TestADeliveryStaysInProgressUntilItsDeadLetterIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := Defaults()
		config.Attempts = 1
		c, l := newConsumer(t, config, &fake{fail: awayFor7})
		fails := 3
		c.deadLetter = func(ctx context.Context, r *schemas.Record, reason error) error {
			if fails--; fails >= 0 {
				return errAway
			}
			return l.setAside(ctx, r, reason)
		}
		must.Do(t, c.Apply(t.Context(), batch(item(5, 7, 10, 1))))
		synctest.Wait()
		if first, inHand := c.InHand(3); !inHand || first != 5 {
			t.Errorf("in hand from %d, %t", first, inHand)
		}
		c.partition(t.Context(), 3).work.Wait()
		if _, inHand := c.Finish(t.Context(), 3); inHand || len(l.reasons) != 1 {
			t.Errorf("in hand %t, dead letters %v", inHand, l.reasons)
		}
	})
}

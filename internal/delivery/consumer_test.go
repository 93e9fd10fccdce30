package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func item(offset int64, user schemas.UserID, version schemas.Version, recipients ...schemas.UserID) Item {
	t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: 1_763_700_000_000, Cause: schemas.FirstBeat,
		Kinds: schemas.SetOfKinds(schemas.Mobile), Visibility: schemas.Everyone, Version: version}
	return Item{&schemas.Delivery{Transition: t, Recipients: recipients}, schemas.Record{Partition: 3, Offset: offset}}
}

// fake is a channel that does what it is told.
type fake struct {
	mu    sync.Mutex
	told  []Notice
	tries []time.Time
	fail  func(Notice) error
}

func (f *fake) Deliver(_ context.Context, n Notice) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries = append(f.tries, time.Now())
	if f.fail != nil {
		if err := f.fail(n); err != nil {
			return err
		}
	}
	f.told = append(f.told, n)
	return nil
}

type letters struct {
	mu      sync.Mutex
	reasons []error
}

func (l *letters) setAside(_ context.Context, _ *schemas.Record, reason error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reasons = append(l.reasons, reason)
	return nil
}

func newConsumer(t *testing.T, config Config, c interface {
	Deliver(ctx context.Context, n Notice) error
}) (*Consumer, *letters) {
	t.Helper()
	l := &letters{}
	made := must.Get(NewConsumer(config, c.Deliver, nil, l.setAside, NewMetrics(nil), slog.New(slog.DiscardHandler)))(t)
	return made, l
}

func batch(items ...Item) stream.Batch[Item] { return stream.Batch[Item]{Partition: 3, Items: items} }

// apply returns when nothing of the batch is in hand any more. Like a feed it finishes
// the partition when its context ends.
func apply(c *Consumer, ctx context.Context, b stream.Batch[Item]) error {
	if err := c.Apply(ctx, b); err != nil {
		return err
	}
	p := c.partition(ctx, b.Partition)
	defer context.AfterFunc(ctx, p.cancel)()
	p.work.Wait()
	_, left := c.Finish(ctx, b.Partition)
	if left && ctx.Err() == nil {
		return errors.New("something is still in hand")
	}
	return ctx.Err()
}

var errAway = errors.New("nobody answers")

func TestARecipientReceivesEachVersionOnceAndNoneOlder(t *testing.T) {
	t.Parallel()
	f := &fake{}
	c, _ := newConsumer(t, Defaults(), f)
	for _, b := range []stream.Batch[Item]{
		batch(item(1, 7, 10, 1, 2), item(2, 7, 10, 2, 3), item(3, 8, 10, 1)),
		batch(item(1, 7, 10, 1, 2), item(4, 7, 9, 1, 4), item(5, 7, 11, 1)),
	} {
		must.Do(t, apply(c, t.Context(), b))
	}
	got := map[string][]schemas.UserID{}
	for _, n := range f.told {
		key := fmt.Sprintf("%d@%d", n.Transition.User, n.Transition.Version)
		got[key] = append(got[key], n.Recipients...)
	}
	for key, want := range map[string][]schemas.UserID{"7@10": {1, 2, 3}, "8@10": {1}, "7@9": {4}, "7@11": {1}} {
		if !slices.Equal(got[key], want) {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
	}
}

// awayFor7 fails for what user 7 does.
func awayFor7(n Notice) error {
	if n.Transition.User == 7 {
		return errAway
	}
	return nil
}

func TestADeliveryIsTriedWithGrowingPausesAndThenSetAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fail: awayFor7}
		config := Defaults()
		config.Attempts, config.MaxWait = 5, time.Second
		c, l := newConsumer(t, config, f)
		c.jitter = func(d time.Duration) time.Duration { return d }
		begun := time.Now()
		must.Do(t, apply(c, t.Context(), batch(item(1, 7, 10, 1), item(2, 8, 10, 1))))
		if len(l.reasons) != 1 || !errors.Is(l.reasons[0], errAway) || !strings.Contains(l.reasons[0].Error(), "5 times") {
			t.Errorf("sent to the dead-letter topic: %v", l.reasons)
		}
		if took := time.Since(begun); took != 2400*time.Millisecond {
			t.Errorf("five tries took %s, want 0.2+0.4+0.8+1 s", took)
		}
		if len(f.told) != 1 || f.told[0].Transition.User != 8 {
			t.Errorf("told: %v", f.told)
		}
	})
}

func TestWhatIsRefusedForGoodIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	f := &fake{fail: func(Notice) error { return Permanent(errAway) }}
	c, l := newConsumer(t, Defaults(), f)
	for range 2 { // the second time because another of the batch could not be sent to the dead-letter topic, say
		if err := apply(c, t.Context(), batch(item(1, 7, 10, 1))); err != nil || len(l.reasons) != 1 || len(f.tries) != 1 {
			t.Errorf("%v, %d dead letters, %d tries", err, len(l.reasons), len(f.tries))
		}
	}
}

func TestNothingOfAUserHiddenMeanwhileIsDeliveredOrTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fail: awayFor7}
		c, l := newConsumer(t, Defaults(), f)
		begun := time.Now()
		c.hiddenAfter = func(user schemas.UserID, version schemas.Version) bool {
			switch user {
			case 7: // hides while the receiver is away
				return version < 11 && time.Since(begun) > time.Second
			case 8:
				return version < 11
			}
			return false
		}
		must.Do(t, apply(c, t.Context(), batch(item(1, 7, 10, 1, 2), item(2, 8, 10, 1), item(3, 8, 11, 1), item(4, 9, 10, 1))))
		if len(l.reasons) != 0 || time.Since(begun) > 3*time.Second {
			t.Errorf("dead letters %v after %s", l.reasons, time.Since(begun))
		}
		var told []string
		for _, n := range f.told {
			told = append(told, fmt.Sprintf("%d@%d", n.Transition.User, n.Transition.Version))
		}
		if slices.Sort(told); !slices.Equal(told, []string{"8@11", "9@10"}) {
			t.Errorf("told: %v", told)
		}
		if n := valueOf(c.metrics.Withheld.WithLabelValues("hidden")); n != 3 {
			t.Errorf("%v recipients are counted", n)
		}
		// The same batch again, when they show: it is over.
		c.hiddenAfter = func(schemas.UserID, schemas.Version) bool { return false }
		f.fail, f.told = nil, nil
		if err := apply(c, t.Context(), batch(item(1, 7, 10, 1, 2), item(2, 8, 10, 1))); err != nil || len(f.told) != 0 {
			t.Errorf("told %v, %v", f.told, err)
		}
	})
}

func TestWhatIsTooOldIsNotDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := Defaults()
		config.MaxAge = time.Minute
		f := &fake{}
		c, l := newConsumer(t, config, f)
		young, old := item(1, 7, 10, 1), item(2, 8, 10, 1, 2)
		young.Record.Time = schemas.MillisOf(time.Now().Add(-time.Minute))
		old.Record.Time = young.Record.Time - 1
		if err := apply(c, t.Context(), batch(young, old)); err != nil || len(l.reasons) != 0 {
			t.Fatal(err, l.reasons)
		}
		if len(f.told) != 1 || f.told[0].Transition.User != 7 {
			t.Errorf("told: %v", f.told)
		}
		if n := valueOf(c.metrics.Withheld.WithLabelValues("old")); n != 2 {
			t.Errorf("%v recipients are counted", n)
		}
	})
}

func TestAfterAStopTheSameBatchGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{}
	f.fail = func(n Notice) error {
		if n.Transition.User == 15 {
			cancel()
			return errAway
		}
		return nil
	}
	c, l := newConsumer(t, Defaults(), f)
	b := batch(item(1, 7, 10, 1), item(2, 15, 10, 1)) // of one lane
	if err := apply(c, ctx, b); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.fail = nil
	if err := apply(c, t.Context(), b); err != nil || len(f.told) != 2 || len(l.reasons) != 0 {
		t.Errorf("%v, told %d times, %d dead letters", err, len(f.told), len(l.reasons))
	}
}

func TestDeliveriesKeepToTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := Defaults()
		config.Rate = 10
		c, _ := newConsumer(t, config, &fake{})
		var items []Item
		for i := range 21 {
			items = append(items, item(int64(i), schemas.UserID(i+1), 10, 1))
		}
		begun := time.Now()
		if err := apply(c, t.Context(), batch(items...)); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("21 deliveries at 10 a second took %s, %v", time.Since(begun), err)
		}
	})
}

func TestAWaitThatTheReceiverAsksForIsBoundedByMaxWait(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{0: 200 * time.Millisecond, 5 * time.Second: 5 * time.Second, time.Hour: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			fails := 1
			f := &fake{fail: func(Notice) error {
				if fails--; fails >= 0 {
					return After(asked, errAway)
				}
				return nil
			}}
			c, _ := newConsumer(t, Defaults(), f)
			c.jitter = func(d time.Duration) time.Duration { return d }
			if err := apply(c, t.Context(), batch(item(1, 7, 10, 1))); err != nil || len(f.tries) != 2 || f.tries[1].Sub(f.tries[0]) != want {
				t.Errorf("asked for %s: tries at %v, %v", asked, f.tries, err)
			}
		})
	}
}

func TestIfHiddenUsersAreShownAsOfflineTheirBeingOfflineIsDelivered(t *testing.T) {
	t.Parallel()
	f := &fake{}
	config := Defaults()
	config.HiddenOffline = true
	c, _ := newConsumer(t, config, f)
	c.hiddenAfter = func(schemas.UserID, schemas.Version) bool { return true }
	came, left := item(1, 7, 10, 1), item(2, 7, 11, 1)
	left.Delivery.Transition.From, left.Delivery.Transition.To = schemas.Online, schemas.Offline
	must.Do(t, apply(c, t.Context(), batch(came, left)))
	if len(f.told) != 1 || f.told[0].Transition.Version != 11 {
		t.Errorf("told %+v", f.told)
	}
}

func TestWhoMayNotSeeTheUserWhenATryBeginsReceivesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := map[schemas.UserID]bool{}
		f := &fake{}
		f.fail = func(n Notice) error {
			if len(f.tries) > 1 || n.Transition.User != 7 {
				return nil
			}
			left[2] = true // leaves between the first try and the second
			return errAway
		}
		c, l := newConsumer(t, Defaults(), f)
		c.Authorize(func(_ context.Context, user schemas.UserID, recipients []schemas.UserID) (refused []schemas.UserID, _ error) {
			for _, r := range recipients {
				if r == 9 || user == 7 && left[r] {
					refused = append(refused, r)
				}
			}
			return refused, nil
		})
		must.Do(t, apply(c, t.Context(), batch(item(1, 7, 10, 1, 2, 3, 9))))
		must.Do(t, apply(c, t.Context(), batch(item(2, 8, 10, 9)))) // nobody is left
		if len(f.told) != 1 || !slices.Equal(f.told[0].Recipients, []schemas.UserID{1, 3}) || len(l.reasons) != 0 {
			t.Errorf("told %v, dead letters %v", f.told, l.reasons)
		}
		if n := valueOf(c.metrics.Withheld.WithLabelValues("not_allowed")); n != 3 {
			t.Errorf("%g are counted as not allowed, not 3", n)
		}
	})
}

func TestWhileTheRecipientsCannotBeDecidedNothingIsDeliveredOrGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c, l := newConsumer(t, Defaults(), f)
		asked := 0
		c.Authorize(func(context.Context, schemas.UserID, []schemas.UserID) ([]schemas.UserID, error) {
			if asked++; asked <= 3*Defaults().Attempts {
				return nil, errAway
			}
			return nil, nil
		})
		must.Do(t, apply(c, t.Context(), batch(item(1, 7, 10, 1))))
		if len(f.tries) != 1 || len(f.told) != 1 || len(l.reasons) != 0 {
			t.Errorf("tried %d times, told %d, %d dead letters", len(f.tries), len(f.told), len(l.reasons))
		}
	})
}

// valueOf reads a counter.
func valueOf(m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return out.GetCounter().GetValue()
}

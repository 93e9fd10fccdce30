package channel

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// TestAReceiverThatFailsOrHangsForSomeUsersDelaysNobodyElse has a real server refuse what
// is about one user and never answer what is about as many others as there are slots.
func TestAReceiverThatFailsOrHangsForSomeUsersDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	const others, hanging = 200, 8
	release := make(chan struct{})
	arrived := make(chan string, others)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch user := r.Header.Get("Ce-Subject"); {
		case user == "7":
			w.WriteHeader(http.StatusServiceUnavailable)
		case len(user) == 4: // 1000 to 1007
			<-release
		default:
			arrived <- user
		}
	}))
	defer server.Close()
	hook, err := NewWebhook(WebhookConfig{URL: server.URL, Source: "/here", Client: server.Client()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, _ := consumer(t, Defaults(), hook)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // the first dead letter comes after 25 s
	defer cancel()
	offset := int64(0)
	next := func(user schemas.UserID, version schemas.Version) Item {
		offset++
		return item(offset, user, version, 1)
	}
	first := []Item{next(7, 10), next(7, 11)}
	for i := range schemas.UserID(hanging) {
		first = append(first, next(1000+i, 10))
	}
	if err := c.Apply(ctx, batch(first...)); err != nil {
		t.Fatal(err)
	}
	for i := range schemas.UserID(others) {
		if err := c.Apply(ctx, batch(next(10_000+i, 10))); err != nil {
			t.Fatalf("after %d batches: %v", i, err)
		}
	}
	for n := range others {
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatalf("only %d of %d notices of others have arrived", n, others)
		}
	}
	if first, inHand := c.InHand(3); !inHand || first != 1 {
		t.Errorf("in hand from offset %d, %t; want 1: the first that failed is not to be committed", first, inHand)
	}
	close(release)
	if first, inHand := c.Finish(t.Context(), 3); !inHand || first != 1 {
		t.Errorf("in hand at the end from offset %d, %t; want 1", first, inHand)
	}
}

func TestWhatOneRecipientGetsStaysInOrderThroughFailuresAndNothingIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := map[schemas.Version]int{}
		f := &fake{fail: func(n Notice) error {
			if tries[n.Transition.Version]++; n.Transition.User == 7 && n.Transition.Version%2 == 0 && tries[n.Transition.Version] < 4 {
				return errAway
			}
			return nil
		}}
		c, l := consumer(t, Defaults(), f)
		for version := schemas.Version(10); version < 30; version++ {
			if err := c.Apply(t.Context(), batch(item(int64(version), 7, version, 1))); err != nil {
				t.Fatal(err)
			}
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
		c, l := consumer(t, config, &fake{fail: awayFor7})
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
func TestADeliveryStaysInHandUntilItsDeadLetterIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := Defaults()
		config.Attempts = 1
		c, l := consumer(t, config, &fake{fail: awayFor7})
		fails := 3
		c.setAside = func(ctx context.Context, r *schemas.Record, reason error) error {
			if fails--; fails >= 0 {
				return errAway
			}
			return l.setAside(ctx, r, reason)
		}
		if err := c.Apply(t.Context(), batch(item(5, 7, 10, 1))); err != nil {
			t.Fatal(err)
		}
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

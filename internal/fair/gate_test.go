package fair

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func gate(atWork, waiting int) *Gate {
	return NewGate(GateConfig{AtWork: atWork, Waiting: waiting, Wait: time.Second})
}

func TestAQuietTenantEntersNextHoweverManyOfAnotherWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = 10 * time.Millisecond
		g := gate(2, 500)
		var requests sync.WaitGroup
		request := func(tenant string) (waited time.Duration, err error) {
			begun := time.Now()
			if err = g.Enter(t.Context(), tenant); err != nil {
				return time.Since(begun), err
			}
			waited = time.Since(begun)
			time.Sleep(work)
			g.Leave(tenant, work)
			return waited, nil
		}
		var mu sync.Mutex
		busy := 0
		for range 400 {
			requests.Go(func() {
				if _, err := request("noisy"); errors.Is(err, ErrBusy) {
					mu.Lock()
					busy++
					mu.Unlock()
				}
			})
		}
		synctest.Wait()
		for range 50 {
			if waited, err := request("quiet"); err != nil || waited > work {
				t.Fatalf("the quiet tenant waited %s: %v", waited, err)
			}
		}
		requests.Wait()
		if busy == 0 || busy > 300 {
			t.Errorf("%d of the noisy tenant's requests were refused", busy)
		}
		if state := g.state.Load(); state != 0 {
			t.Errorf("state %x at the end", state)
		}
	})
}

func TestAFullGateRefusesTheNewestOfTheTenantWithMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(1, 3)
		if err := g.Enter(t.Context(), "noisy"); err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 10)
		wait := func(tenant string) { go func() { results <- g.Enter(t.Context(), tenant) }(); synctest.Wait() }
		for range 3 {
			wait("noisy")
		}
		wait("quiet")
		if err := <-results; !errors.Is(err, ErrBusy) || g.Waiting() != 3 {
			t.Fatalf("%v; %d wait", err, g.Waiting())
		}
		wait("noisy")
		if err := <-results; !errors.Is(err, ErrBusy) || g.Waiting() != 3 {
			t.Fatalf("%v; %d wait", err, g.Waiting())
		}
		for range 3 {
			g.Leave("noisy", time.Millisecond)
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
		g.Leave("quiet", 0)
		if g.state.Load() != 0 {
			t.Error("a slot is lost")
		}
	})
}

func TestWhoWaitsTooLongOrIsCancelledLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(1, 3)
		if err := g.Enter(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := g.Enter(t.Context(), ""); !errors.Is(err, ErrBusy) || time.Since(begun) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.Enter(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		g.Leave("", 0)
		if g.state.Load() != 0 || g.turns.Len() != 0 {
			t.Error("a slot or a waiter is left")
		}
	})
}

func TestNoSlotIsLostOrGivenTwice(t *testing.T) {
	t.Parallel()
	g := NewGate(GateConfig{AtWork: 3, Waiting: 8, Wait: 50 * time.Microsecond})
	var atWork, most, entered int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			tenant := string(rune('a' + i%4))
			for range 2_000 {
				if g.Enter(context.Background(), tenant) != nil {
					continue
				}
				mu.Lock()
				atWork++
				entered++
				most = max(most, atWork)
				mu.Unlock()
				mu.Lock()
				atWork--
				mu.Unlock()
				g.Leave(tenant, time.Microsecond)
			}
		})
	}
	all.Wait()
	if most > 3 || entered == 0 || g.state.Load() != 0 || g.turns.Len() != 0 {
		t.Errorf("%d at work at once, %d entered, state %x", most, entered, g.state.Load())
	}
}

func TestAnOpenGateAllocatesNothing(t *testing.T) {
	g, ctx := gate(1, 1), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if g.Enter(ctx, "tenant") == nil {
			g.Leave("tenant", time.Millisecond)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAnOpenGate(b *testing.B) {
	g, ctx := gate(64, 1), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if g.Enter(ctx, "tenant") == nil {
			g.Leave("tenant", time.Millisecond)
		}
	}
}

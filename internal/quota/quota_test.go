package quota

import (
	"sync"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestEachUserHoldsOnlySoManyAndNobodyIsRememberedWhoHoldsNone(t *testing.T) {
	t.Parallel()
	q := New[schemas.UserID](20)
	var all sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 100 {
		all.Go(func() {
			if q.Take(7) {
				mu.Lock()
				taken++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if taken != 20 {
		t.Errorf("%d of 100 were taken, want 20", taken)
	}
	if !q.Take(8) {
		t.Error("one user's bound is another's")
	}
	q.Give(8)
	for range taken {
		q.Give(7)
	}
	if len(q.held) != 0 {
		t.Errorf("%v are remembered, who hold nothing", q.held)
	}
	for range 100 {
		if !q.Take(0) || !New[schemas.UserID](0).Take(7) {
			t.Fatal("who is not known, or has no bound, was refused")
		}
	}
}

func TestWhatWasTakenBeforeABoundChangesCounts(t *testing.T) {
	t.Parallel()
	q := New[schemas.UserID](0)
	for range 3 {
		q.Take(7)
	}
	q.Allow(3)
	if q.Take(7) {
		t.Error("a fourth was taken")
	}
	q.Allow(0)
	q.Give(7)
	q.Allow(3)
	if !q.Take(7) {
		t.Error("what was given back while there was no bound is still counted")
	}
}

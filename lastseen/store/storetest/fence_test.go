package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func fencedWritesNothing(t *testing.T, s Store) {
	log := RandomLog(1, 4, 30)
	wantFenced(t, s.Append(t.Context(), store.Batch{Expected: 7, Next: 20, Changes: log[:20]}))
	wantNext(t, s, 0, store.Unknown)
	wantUsers(t, s, nil)

	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 10, Changes: log[:10]}))
	for _, expected := range []int64{store.Unknown, 0, 9, 11, 20} {
		wantFenced(t, s.Append(t.Context(), store.Batch{Expected: expected, Next: 30, Changes: log[10:]}))
	}
	wantNext(t, s, 0, 10)
	wantUsers(t, s, log[:10])
	wantLog(t, s, log[:10])
}

func againIsFenced(t *testing.T, s Store) {
	first := store.Batch{Expected: store.Unknown, Next: 10, Changes: RandomLog(1, 4, 10)}
	must.Do(t, s.Append(t.Context(), first))
	wantFenced(t, s.Append(t.Context(), first))
	second := store.Batch{Expected: 10, Next: 12}
	must.Do(t, s.Append(t.Context(), second))
	wantFenced(t, s.Append(t.Context(), second))
}

func twoOwners(t *testing.T, s Store) {
	const rounds, owners = 20, 2
	log := RandomLog(3, 5, rounds*10)
	expected := store.Unknown
	for round := range rounds {
		batch := store.Batch{Expected: expected, Next: int64(10 * (round + 1)), Changes: log[10*round : 10*(round+1)]}
		errs := together(owners, func(int) error { return s.Append(t.Context(), batch) })
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, store.ErrFenced):
				t.Fatal(err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d owners have written", round, won)
		}
		expected = batch.Next
	}
	wantNext(t, s, 0, rounds*10)
	wantUsers(t, s, log)
	wantLog(t, s, log)
}

func partitionsTogether(t *testing.T, s Store) {
	const partitions, rounds = 4, 10
	logs := make([][]*schemas.Transition, partitions)
	all := RandomLog(4, 90, partitions*rounds*10)
	for _, change := range all {
		p := schemas.PartitionOf(change.User, partitions)
		logs[p] = append(logs[p], change)
	}
	errs := together(partitions, func(p int) error {
		expected := store.Unknown
		for start := 0; start < len(logs[p]); start += 10 {
			end := min(start+10, len(logs[p]))
			if err := s.Append(t.Context(), store.Batch{
				Partition: int32(p), Expected: expected, Next: int64(end), Changes: logs[p][start:end],
			}); err != nil {
				return err
			}
			expected = int64(end)
		}
		return nil
	})
	must.Do(t, errors.Join(errs...))
	wantUsers(t, s, all)
	wantLog(t, s, all)
}

// together runs act n times at once and returns what each returned.
func together(n int, act func(i int) error) []error {
	errs := make([]error, n)
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { errs[i] = act(i) })
	}
	done.Wait()
	return errs
}

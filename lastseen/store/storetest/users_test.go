package storetest

import (
	"math"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func rewrittenLogAddsNothing(t *testing.T, s Store) {
	log := RandomLog(5, 4, 40)
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 0, Expected: store.Unknown, Next: 40, Changes: log[:30]}))
	// A consumer group that starts anew: same changes, offsets not known.
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 1, Expected: store.Unknown, Next: 20, Changes: log[:20]}))
	wantUsers(t, s, log[:30])
	wantLog(t, s, log[:30])
	// Half old, half new.
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 1, Expected: 20, Next: 35, Changes: log[20:35]}))
	wantUsers(t, s, log[:35])
	wantLog(t, s, log[:35])
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 1, Expected: 35, Next: 40, Changes: log[35:]}))
	wantUsers(t, s, log)
	wantLog(t, s, log)
}

func userNeverGoesBack(t *testing.T, s Store) {
	log := RandomLog(6, 1, 10)
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: 0, Expected: store.Unknown, Next: 10, Changes: log}))
	for i, change := range log {
		must.Do(t, s.Append(t.Context(), store.Batch{Partition: int32(i + 1), Expected: store.Unknown, Next: 1,
			Changes: []*schemas.Transition{change}}))
		wantUsers(t, s, log)
	}
}

func cutsDoNotMatter(t *testing.T, s Store) {
	log := RandomLog(7, 5, 200)
	expected := store.Unknown
	for start, size := 0, 1; start < len(log); size = size%7 + 1 {
		end := min(start+size, len(log))
		must.Do(t, s.Append(t.Context(), store.Batch{Expected: expected, Next: int64(end), Changes: log[start:end]}))
		wantUsers(t, s, log[:end])
		start, expected = end, int64(end)
	}
	wantLog(t, s, log)
	wantDenied(t, s, log)
}

func extremesComeBack(t *testing.T, s Store) {
	log := []*schemas.Transition{
		{
			User: math.MaxInt64, From: schemas.Offline, To: schemas.Online, At: Start + 999, LastSeen: Start + 998,
			LastActive: Start + 1, Cause: schemas.FirstBeat, Device: math.MaxUint32, Visibility: schemas.Everyone,
			Kinds:   schemas.SetOfKinds(schemas.Kinds[:]...),
			Version: math.MaxInt64, Policy: "ünï 'quoted' \\ \"policy\"\n",
		},
		{User: 1, From: schemas.Offline, To: schemas.Offline, At: 1, Visibility: schemas.Everyone, Version: 1},
		// A cause that a newer program will have.
		{User: 2, From: schemas.Away, To: schemas.Online, At: Start, Visibility: schemas.Everyone, Version: 2},
	}
	must.Do(t, s.Append(t.Context(), store.Batch{Partition: math.MaxInt32, Expected: store.Unknown, Next: math.MaxInt64, Changes: log}))
	wantNext(t, s, math.MaxInt32, math.MaxInt64)
	wantUsers(t, s, log)
	wantLog(t, s, log)
}

func unknownUsersLeftOut(t *testing.T, s Store) {
	for _, ids := range [][]schemas.UserID{nil, {1, 2, math.MaxInt64}} {
		found := must.Get(s.Users(t.Context(), ids))(t)
		if len(found) != 0 {
			t.Errorf("found %v", found)
		}
	}
	wantHistory(t, s, store.HistoryQuery{User: 1, Limit: 1}, nil)
}

package storetest

import (
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// spread is a log over four days, with a change in the last millisecond of one.
func spread(t *testing.T, s Store) []*schemas.Transition {
	t.Helper()
	log := RandomLog(4, 9, 240)
	for i, change := range log {
		change.At += schemas.Millis(i) * day / 60
	}
	log[100].At = log[100].At/day*day + day - 1
	log[101].At = log[100].At + 1
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 240, Changes: log}))
	return log
}

// logged is what the log has of t.
func logged(t *schemas.Transition) *schemas.Transition {
	row := *t
	row.Denies, row.AudienceBefore = "", 0
	return &row
}

func entryOf(t *schemas.Transition) store.Entry {
	e := store.Entry{Transition: *logged(t)}
	e.SetEvent([]byte(t.EventID().String()))
	return e
}

func wantChanges(t *testing.T, s Store, of store.Range, log []*schemas.Transition) {
	t.Helper()
	var want, got []store.Entry
	for _, change := range log {
		if change.At >= of.From && (of.To == 0 || change.At < of.To) && (of.User == 0 || change.User == of.User) {
			want = append(want, entryOf(change))
		}
	}
	slices.SortFunc(want, func(a, b store.Entry) int { return a.Compare(&b) })
	must.Do(t, s.Changes(t.Context(), of, func(e *store.Entry) error { got = append(got, *e); return nil }))
	if !slices.Equal(got, want) {
		t.Fatalf("changes of %+v are %d\n%+v, want %d\n%+v", of, len(got), got, len(want), want)
	}
}

func changesComeBack(t *testing.T, s Store) {
	wantChanges(t, s, store.Range{}, nil)
	wantChanges(t, s, store.Range{}, spread(t, s))
}

func changesOfRanges(t *testing.T, s Store) {
	log := spread(t, s)
	for _, of := range []store.Range{
		{From: log[100].At}, {From: log[100].At, To: log[101].At}, {To: log[101].At}, {From: log[101].At, To: log[101].At + 1},
		{From: log[20].At, To: log[200].At, User: 3}, {User: 9}, {User: 10}, {From: log[239].At + 1},
	} {
		wantChanges(t, s, of, log)
	}
}

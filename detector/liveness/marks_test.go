package liveness

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// The user is offline, so only a mark is left of the show, in memory and in the status.
func TestAShowIsForgottenWhenNoReportCanHaveATimeBeforeIt(t *testing.T) {
	t.Parallel()
	const at = schemas.Millis(1_763_700_000_000)
	m := New(Defaults(), 0, 1, 1, 0)
	offset := int64(0)
	apply := func(at schemas.Millis, value []byte) (statuses []schemas.Status) {
		var f schemas.Frame
		if err := f.Decode(value); err != nil {
			t.Fatal(err)
		}
		var out Output
		if !m.Apply(offset, at, &f, &out) {
			t.Fatal("more than a slice")
		}
		offset++
		return out.Statuses
	}
	apply(at, schemas.AppendVisibility(nil, 42, schemas.Nobody))
	shown := apply(at+1000, schemas.AppendVisibility(nil, 42, schemas.Everyone))
	if n := len(shown); n != 1 || shown[0].ShownAt != at+1000 || shown[0].Tombstone() {
		t.Fatalf("the show writes %+v", shown)
	}
	var last []schemas.Status
	for now := at + 1000; now < at+1000+showMatters; now += 60_000_000 {
		last = append(last, apply(now, schemas.AppendTick(nil))...)
	}
	for _, s := range last {
		if s.ShownAt != at+1000 {
			t.Errorf("forgotten too early: %+v", s)
		}
	}
	last = apply(at+1000+showMatters+marksEvery, schemas.AppendTick(nil))
	if len(last) != 1 || last[0].User != 42 || !last[0].Tombstone() || len(m.marks) != 0 {
		t.Errorf("a month later %+v, %d marks", last, len(m.marks))
	}
}

package schemas

import (
	"cmp"
	"testing"

	"pgregory.net/rapid"
)

func TestVersionsAreOrderedByEpochThenOffsetThenOrdinal(t *testing.T) {
	t.Parallel()
	type parts struct {
		epoch   uint32
		offset  int64
		ordinal int
	}
	anyParts := rapid.Custom(func(t *rapid.T) parts {
		return parts{
			rapid.Uint32Range(1, MaxLogEpoch).Draw(t, "epoch"),
			rapid.Int64Range(0, MaxVersionOffset).Draw(t, "offset"),
			rapid.IntRange(0, MaxOrdinal).Draw(t, "ordinal"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyParts.Draw(t, "a"), anyParts.Draw(t, "b")
		v, w := NewVersion(a.epoch, a.offset, a.ordinal), NewVersion(b.epoch, b.offset, b.ordinal)
		if v < 1 || v.LogEpoch() != a.epoch || v.Offset() != a.offset || v.Ordinal() != a.ordinal {
			t.Fatalf("%+v packs to %d and unpacks to %d, %d, %d", a, v, v.LogEpoch(), v.Offset(), v.Ordinal())
		}
		want := cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.offset, b.offset), cmp.Compare(a.ordinal, b.ordinal))
		if cmp.Compare(v, w) != want {
			t.Fatalf("%+v and %+v compare as %d, want %d", a, b, cmp.Compare(v, w), want)
		}
	})
}

func TestTheGreatestVersionFitsIn63Bits(t *testing.T) {
	t.Parallel()
	if v := NewVersion(MaxLogEpoch, MaxVersionOffset, MaxOrdinal); v != 1<<63-1 {
		t.Fatalf("is %d", v)
	}
}

func TestAFrameCannotExhaustTheOrdinals(t *testing.T) {
	t.Parallel()
	// A row causes at most a transition of its own, and what is due before it was
	// caused by an earlier row or is bounded by the rules.
	if MaxFrameRows >= MaxOrdinal { // the greatest is that of statuses without a change; see OfChange
		t.Fatalf("%d rows, ordinals up to %d", MaxFrameRows, MaxOrdinal)
	}
}

func TestAVersionOutOfRangePanics(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(){
		"log epoch 0":    func() { NewVersion(0, 0, 0) },
		"log epoch 1024": func() { NewVersion(1024, 0, 0) },
		"offset":         func() { NewVersion(1, 1<<41, 0) },
		"ordinal":        func() { NewVersion(1, 0, 4096) },
		"negative":       func() { NewVersion(1, -1, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			make()
		}()
	}
}

func TestTheEventIDOfATransitionNeverChanges(t *testing.T) {
	t.Parallel()
	at := Millis(1_763_700_000_123)
	id := EventID(42, NewVersion(1, 1000, 2), at)
	// Worked out apart from this program, from the words of EventID.
	const want = "35m0aBNVohgd5UkDoekDTNef4uU"
	if id.String() != want {
		t.Errorf("is %s, want %s: ids that were published must not change", id, want)
	}
	if got := MillisOf(id.Time()); got != at/1000*1000 {
		t.Errorf("its time is %s, want that of the transition in whole seconds", got)
	}
	for _, other := range []string{
		EventID(43, NewVersion(1, 1000, 2), at).String(),
		EventID(42, NewVersion(1, 1000, 3), at).String(),
	} {
		if other == id.String() {
			t.Error("another transition has the same id")
		}
	}
}

package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/detector/oracle"
	"github.com/stillhere/stillhere/schemas"
)

// Test is what the checks need of a *testing.T. Programs use this package too, and
// must not import testing.
type Test interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Impl is an implementation of the rules; see oracle.Run.
type Impl func(log oracle.Log) []schemas.Transition

// Flat is impl for a log that loses nothing, in the form of oracle.Transitions.
func Flat(impl Impl) func(p schemas.Policy, partition, partitions int32, logEpoch uint32, records []schemas.Record) []schemas.Transition {
	return func(p schemas.Policy, partition, partitions int32, logEpoch uint32, records []schemas.Record) []schemas.Transition {
		return impl(oracle.Log{Policy: p, Partition: partition, Partitions: partitions, LogEpoch: logEpoch, Records: records})
	}
}

// of runs an implementation over h.
func (impl Impl) of(h *History) []schemas.Transition { return impl(h.Log()) }

// Compare holds impl equal to the oracle on the history of a seed.
func Compare(t Test, impl Impl, seed uint64) {
	t.Helper()
	CompareOn(t, impl, FromSeed(seed))
}

// CompareOn holds impl equal to the oracle on h. Where they differ it reports the
// smallest history it finds on which they still do: as JSON, to be kept under
// testdata.
func CompareOn(t Test, impl Impl, h *History) {
	t.Helper()
	differ := func(h *History) bool { return !slices.Equal(Impl(oracle.Run).of(h), impl.of(h)) }
	if !differ(h) {
		return
	}
	h = Shrink(h, differ)
	t.Fatalf("%s\nKeep it under testdata:\n%s", Difference(h, Impl(oracle.Run).of(h), impl.of(h)), h)
}

// Difference tells where got departs from want.
func Difference(h *History, want, got []schemas.Transition) string {
	same := 0
	for same < len(want) && same < len(got) && want[same] == got[same] {
		same++
	}
	var text strings.Builder
	fmt.Fprintf(&text, "after %d equal transitions (times relative to the start of the history):\n", same)
	for i, list := range [][]schemas.Transition{want[same:], got[same:]} {
		fmt.Fprintln(&text, []string{"the rules want", "got"}[i])
		for _, tr := range list[:min(len(list), 3)] {
			fmt.Fprintln(&text, "  "+Describe(h, tr))
		}
	}
	return text.String()
}

// Describe is a transition in a line, times relative to the start of h.
func Describe(h *History, t schemas.Transition) string {
	relative := func(m schemas.Millis) string {
		if m == 0 {
			return "never"
		}
		return itoa(int64(m - h.start()))
	}
	return fmt.Sprintf("epoch %d record %d.%d: user %d %s→%s at %s, %s by device %d, seen %s, active %s, kinds %v, %s, left out %d",
		t.Version.LogEpoch(), t.Version.Offset(), t.Version.Ordinal(), t.User, schemas.StateWord(t.From), schemas.StateWord(t.To), relative(t.At),
		schemas.CauseWord(t.Cause), t.Device, relative(t.LastSeen), relative(t.LastActive), t.Kinds.Words(), schemas.VisibilityWord(t.Visibility), t.LeftOut)
}

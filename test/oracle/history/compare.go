package history

import (
	"fmt"
	"strings"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// Impl is an implementation of the rules; see oracle.Run.
type Impl func(log oracle.Log) []schemas.Transition

// Difference describes where got departs from want.
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

// Describe writes a transition in one line, with times relative to the start of h.
func Describe(h *History, t schemas.Transition) string {
	relative := func(m schemas.Millis) string {
		if m == 0 {
			return "never"
		}
		return itoa(int64(m - h.start()))
	}
	return fmt.Sprintf("epoch %d record %d.%d: user %d %s→%s at %s, %s by device %d, seen %s, active %s, kinds %v active %v, %s, "+
		"left out %d, erased until %d, name %q, override %q until %s, note %q, automatic %d, hides %t, last seen %d, audience %d after %d by %x",
		t.Version.LogEpoch(), t.Version.Offset(), t.Version.Ordinal(), t.User, schemas.StateWord(t.From),
		schemas.StateWord(t.To), relative(t.At), schemas.CauseWord(t.Cause), t.Device, relative(t.LastSeen),
		relative(t.LastActive), t.Kinds.Words(), t.Kinds.Active().Words(), schemas.VisibilityWord(t.Visibility),
		t.LeftOut, t.ErasedUntil, t.Name, schemas.OverrideWord(t.Override.State), relative(t.Override.Until),
		t.Override.Note, t.Override.Automatic, t.Override.Hides, t.Override.LastSeen,
		t.Override.Audience, t.AudienceBefore, t.Denies)
}

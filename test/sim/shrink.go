package sim

import (
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// shrink looks for a small history on which impl differs from the oracle, until the limit. It
// first removes the records after the difference, then those of other users.
func shrink(h *history.History, limit time.Duration, impl func(*history.History) history.Impl) *history.History {
	deadline := time.Now().Add(limit)
	differ := func(h *history.History) bool {
		return time.Now().Before(deadline) && !slices.Equal(on(h, oracle.Run), on(h, impl(h)))
	}
	user, record := firstDifference(on(h, oracle.Run), on(h, impl(h)))
	for _, cut := range []*history.History{upTo(h, record+1), upTo(h, record+1000)} {
		if differ(cut) {
			h = cut
			break
		}
	}
	if only := about(h, user); differ(only) {
		h = only
	}
	return history.Shrink(h, differ)
}

// firstDifference is the user and the record of the first transition that only
// one of the two has.
func firstDifference(want, got []schemas.Transition) (schemas.UserID, int) {
	same := 0
	for same < len(want) && same < len(got) && want[same] == got[same] {
		same++
	}
	var first schemas.Transition
	for _, list := range [][]schemas.Transition{want[same:], got[same:]} {
		if len(list) > 0 && (first.Version == 0 || list[0].Version.Offset() < first.Version.Offset()) {
			first = list[0]
		}
	}
	return first.User, int(first.Version.Offset())
}

// upTo is h without the records from n on.
func upTo(h *history.History, n int) *history.History {
	shorter := *h
	shorter.Records = h.Records[:min(n, len(h.Records))]
	return &shorter
}

// about is h without the rows of other users. The records of gateways stay.
func about(h *history.History, user schemas.UserID) *history.History {
	only := *h
	only.Records = slices.Clone(h.Records)
	for i := range only.Records {
		r := &only.Records[i]
		r.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row history.Row) bool { return row.User != user })
		if r.Hide != user && r.Hide != 0 || r.Show != user && r.Show != 0 {
			*r = history.Record{After: r.After, Restart: r.Restart, Lose: r.Lose, Keep: r.Keep, Tick: true}
		}
	}
	return &only
}

// on are the transitions that impl makes of h.
func on(h *history.History, impl history.Impl) []schemas.Transition { return impl(h.Log()) }

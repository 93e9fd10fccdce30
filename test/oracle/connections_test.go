package oracle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// second is what gateway g writes in one second; without a frame, the second has a tick.
type second struct {
	rows                  []schemas.Beat
	begins, ends, forward bool
}

// play runs the oracle with the default policy. Gateway g writes a frame every second until one second, and the log has
// ticks until another. It returns the transitions with their times in seconds.
func play(frames, ticks int, what map[int]second) (lines []string) {
	var records []schemas.Record
	for i := range ticks {
		value, s := schemas.AppendTick(nil), what[i]
		if i < frames {
			value = schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: start,
				Begins: s.begins, Ends: s.ends, Forwarded: s.forward}, s.rows)
		}
		records = append(records, schemas.Record{Offset: int64(i), Time: start + schemas.Millis(1000*i), Value: value})
	}
	for _, tr := range oracle.Transitions(liveness.Defaults(), 0, 1, 1, records) {
		in := func(m schemas.Millis) schemas.Millis { return (m - start) / 1000 }
		lines = append(lines, fmt.Sprintf("%d: user %d %s, %s, seen %d, active %d", in(tr.At), tr.User,
			schemas.StateWord(tr.To), schemas.CauseWord(tr.Cause), in(tr.LastSeen), in(tr.LastActive)))
	}
	return lines
}

func holds(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// open is the row of a connection of user 1 that came in so many seconds before its frame.
func open(connection schemas.ConnectionID, age int) schemas.Beat {
	return schemas.Beat{User: 1, Device: 1, Connection: connection, Age: schemas.Millis(1000 * age)}
}

func closed(connection schemas.ConnectionID, age int) schemas.Beat {
	b := open(connection, age)
	b.Bye = true
	return b
}

func lost(connection schemas.ConnectionID, age int) schemas.Beat {
	b := open(connection, age)
	b.Lost = true
	return b
}

func frame(rows ...schemas.Beat) second { return second{rows: rows} }

const comes = "0: user 1 online, first_beat, seen 0, active 0"

func TestAHeldUserIsPresentForAnHourOfAliveFrames(t *testing.T) {
	t.Parallel()
	holds(t, play(3601, 3610, map[int]second{0: frame(open(1, 0)), 3600: frame(closed(1, 0))}),
		comes, "3600: user 1 offline, bye, seen 3600, active 3600")
}

func TestABeatWithoutAConnectionSaysHowIdleAHeldUserIs(t *testing.T) {
	t.Parallel()
	idle, used := open(0, 0), open(0, 0)
	idle.Idle = schemas.Millis(time.Minute / time.Millisecond)
	holds(t, play(1000, 1000, map[int]second{0: frame(open(1, 0)), 100: frame(idle), 500: frame(used)}),
		comes, "340: user 1 away, idle, seen 100, active 40", "500: user 1 online, active_again, seen 500, active 500")
}

func TestTheCloseOfAnOlderConnectionEndsNothing(t *testing.T) {
	t.Parallel()
	for _, rows := range []second{
		frame(open(1, 20), open(2, 10), closed(1, 0)),
		frame(open(2, 10), open(1, 20), closed(1, 0)),
		frame(open(2, 10), closed(1, 0), open(1, 20)),
		frame(closed(1, 0), open(1, 20), open(2, 10)),
		frame(closed(1, 0), open(2, 10), open(1, 20)),
		frame(open(1, 20), lost(1, 5), open(2, 10), closed(1, 0)),
	} {
		if got := play(1000, 1000, map[int]second{20: rows}); len(got) != 1 {
			t.Errorf("%+v: %q", rows.rows, got)
		}
	}
	// The close of the only known connection ends the device until it is heard of the newer one.
	holds(t, play(1000, 1000, map[int]second{0: frame(open(1, 0)), 20: frame(closed(1, 0), open(2, 10))}), comes,
		"20: user 1 offline, bye, seen 20, active 20", "20: user 1 online, first_beat, seen 20, active 20")
}

func TestAnOutdatedLossOrCloseFollowsWhatIsNewer(t *testing.T) {
	t.Parallel()
	for _, row := range []schemas.Beat{lost(1, 0), closed(1, 0)} {
		if got := play(1000, 1000, map[int]second{20: frame(row, open(1, 5)), 25: frame(open(1, 0))}); len(got) != 0 {
			t.Errorf("opened before %+v, and told again: %q", row, got)
		}
		if got := play(1000, 1000, map[int]second{20: frame(row), 25: frame(open(2, 0))}); len(got) != 1 {
			t.Errorf("another opened after %+v: %q", row, got)
		}
	}
}

func TestALostConnectionIsALastBeat(t *testing.T) {
	t.Parallel()
	holds(t, play(1000, 1000, map[int]second{0: frame(open(1, 0)), 100: frame(lost(1, 20))}), comes,
		"125: user 1 away, silent, seen 80, active 80", "380: user 1 offline, silent, seen 80, active 80")
	holds(t, play(1000, 1000, map[int]second{0: frame(open(1, 0)), 100: frame(lost(0, 1), open(1, 0), lost(0, 1))}), comes)
	// Told an hour late, it counts as of the earliest instant that is not over.
	holds(t, play(8000, 8000, map[int]second{0: frame(open(1, 0)), 7200: frame(lost(1, 3600))}), comes,
		"7199: user 1 away, silent, seen 7154, active 7154", "7454: user 1 offline, silent, seen 7154, active 7154")
}

func TestALostDeviceLeavesAtItsClose(t *testing.T) {
	t.Parallel()
	rows := map[int]second{0: frame(open(1, 0)), 100: frame(lost(1, 0)), 110: frame(closed(1, 30))}
	holds(t, play(1000, 1000, rows), comes, "100: user 1 offline, bye, seen 100, active 100")
}

func TestTheUsersOfASilentGatewayHaveItsLastFrameAndTheWindow(t *testing.T) {
	t.Parallel()
	holds(t, play(100, 1000, map[int]second{0: frame(open(1, 0))}), comes,
		"174: user 1 away, gateway_lost, seen 99, active 99", "429: user 1 offline, gateway_lost, seen 99, active 99")
}

func TestAReplacementLosesTheUnnamedOnly(t *testing.T) {
	t.Parallel()
	other := open(1, 0)
	other.User = 2
	first, leaves := []string{comes, "0: user 2 online, first_beat, seen 0, active 0"},
		[]string{"147: user 2 away, silent, seen 102, active 102", "402: user 2 offline, silent, seen 102, active 102"}
	for _, named := range []map[int]second{
		{100: {begins: true}, 101: frame(open(1, 10)), 102: {ends: true}},
		{100: {begins: true, rows: []schemas.Beat{open(1, 1)}}, 102: {ends: true}},
		{102: {begins: true, ends: true, rows: []schemas.Beat{open(1, 0)}}},
		{99: frame(open(1, 0)), 100: {begins: true}, 101: frame(open(1, 10)), 102: {ends: true}}, // named by a late row
	} {
		named[0] = frame(open(1, 0), other)
		holds(t, play(1000, 1000, named), append(slices.Clone(first), leaves...)...)
	}
	holds(t, play(1000, 1000, map[int]second{0: frame(open(1, 0), other), 102: {ends: true}}), first...)
}

func TestARepeatedOrLateRowOfAConnectionChangesNothing(t *testing.T) {
	t.Parallel()
	rows := map[int]schemas.Beat{0: open(1, 0), 10: lost(1, 0), 20: open(2, 0), 30: closed(2, 0)}
	once := map[int]second{}
	for at, row := range rows {
		once[at] = frame(row)
	}
	want := play(1000, 1000, once)
	holds(t, want, comes, "30: user 1 offline, bye, seen 30, active 30")
	for at := 1; at < 40; at++ {
		again := map[int]second{}
		for i := range 40 {
			again[i] = second{rows: slices.Clone(once[i].rows)}
		}
		for _, first := range []int{20, 0, 30, 10} {
			if row := rows[first]; first <= at {
				row.Age = schemas.Millis(1000 * (at - first))
				again[at] = second{rows: append(again[at].rows, row)}
			}
		}
		holds(t, play(1000, 1000, again), want...)
	}
}

func TestAForwardedFrameHoldsNobody(t *testing.T) {
	t.Parallel()
	forwarded := func(rows ...schemas.Beat) second { return second{rows: rows, forward: true} }
	holds(t, play(1000, 1000, map[int]second{0: forwarded(open(1, 0)), 1: forwarded(lost(1, 0))}), comes,
		"75: user 1 away, silent, seen 0, active 0", "300: user 1 offline, silent, seen 0, active 0")
	holds(t, play(1000, 1000, map[int]second{0: forwarded(open(1, 0)), 1: forwarded(closed(2, 0))}), comes,
		"1: user 1 offline, bye, seen 1, active 0")
}

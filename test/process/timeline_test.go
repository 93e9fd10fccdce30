//go:build unix

package process_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// timeline is the policy of the tests that look at the clock: away 3 s after the
// last beat, offline 6 s after it.
var timeline = []string{"--policy=online_ttl=2s,offline_debounce=1s,away_ttl=6s"}

const (
	awayAfter    = 3000 // milliseconds
	offlineAfter = 6000
	onlineWithin = 300 * time.Millisecond
	seenWithin   = 700 // milliseconds after the instant
)

// Not parallel: it looks at the clock, and the others would take the time it
// measures.
func TestTheTimelineOfOneBeatIsSeenInTimeAndKeptExactly(t *testing.T) {
	for _, m := range testkit.Modes() {
		t.Run(m.Name, func(t *testing.T) { timelineOfOneBeat(t, m) })
	}
}

func timelineOfOneBeat(t *testing.T, m testkit.Mode) {
	h := testkit.NewDevIn(t, m, timeline...)
	var users []schemas.UserID
	users, h.People = m.People(4)
	first, second, hidden, fourth := users[0], users[1], users[2], users[3]
	h.Up()
	sent := time.Now()
	h.MustSend(testkit.Beat{User: first, Device: 7, Kind: "mobile"})
	answered := schemas.MillisOf(time.Now())
	testkit.Until(t, "the user is online", 10*time.Second, func() bool { return h.State(first) == "online" })
	if took := time.Since(sent); took > onlineWithin {
		t.Errorf("the user was online %s after the beat was sent, must be within %s", took, onlineWithin)
	}
	begun := h.HistoryOf(first, 1)
	if len(begun) != 1 {
		t.Fatalf("after one beat the history is %+v", begun)
	}
	at := begun[0].At
	if at < schemas.MillisOf(sent) || at > answered {
		t.Errorf("the beat's time is %s, it was sent at %s and answered at %s", at, schemas.MillisOf(sent), answered)
	}
	sees(h, first, "away", at+awayAfter)
	sees(h, first, "offline", at+offlineAfter)
	timelineIs(h, first, at)

	// User 2 is online, user 3 is hidden, user 4 is away when the process is killed.
	h.MustSend(testkit.Beat{User: fourth, Device: 1})
	h.MustSend(testkit.Beat{User: hidden, Device: 1})
	h.Show(hidden, "nobody")
	testkit.Until(t, "user 3 is hidden", 5*time.Second, func() bool { return h.State(hidden) == "hidden" })
	testkit.Until(t, "user 4 is away", 10*time.Second, func() bool { return h.State(fourth) == "away" })
	h.MustSend(testkit.Beat{User: second, Device: 1}, testkit.Beat{User: hidden, Device: 1})
	testkit.Until(t, "user 2 is online", 5*time.Second, func() bool { return h.State(second) == "online" })
	secondAt, fourthAt := h.HistoryOf(second, 1)[0].At, h.HistoryOf(fourth, 2)[0].At
	h.Kill()
	killed := time.Now()
	h.Up()
	// Ready: what was known before the kill is known, and what has become due
	// since will be within the usual time.
	down := time.Since(killed)
	if got := h.States(first, hidden); !reflect.DeepEqual(got, map[schemas.UserID]string{first: "offline", hidden: "hidden"}) {
		t.Errorf("after the kill the states are %v", got)
	}
	if got := h.State(second); schemas.MillisOf(time.Now()) < secondAt+awayAfter && got != "online" {
		t.Errorf("user 2 was online when the process was killed and is %s before its time is over", got)
	}
	timelineIs(h, first, at)
	for user, at := range map[schemas.UserID]schemas.Millis{fourth: fourthAt, second: secondAt} {
		testkit.Until(t, "the silent user is offline", 15*time.Second, func() bool { return h.State(user) == "offline" })
		if down < 4*time.Second {
			timelineIs(h, user, at)
		} else { // a log that stands still for 5 s does not count as silence
			t.Logf("starting again took %s, so user %d may have been given more time: %+v", down, user, h.HistoryOf(user, 3))
		}
	}
	if got := h.History(hidden); len(got) != 0 {
		t.Errorf("the history of a hidden user is %+v", got)
	}
	h.Show(hidden, "everyone")
	testkit.Until(t, "user 3 is seen again, offline", 10*time.Second, func() bool { return h.State(hidden) == "offline" })
	if got := h.HistoryOf(hidden, 2); len(got) != 2 || got[0].Cause != "first_beat" || got[1].Cause != "visibility" || got[1].To != "offline" {
		t.Errorf("the history of user 3, who was hidden in between, is %+v, must be of the time before and after", got)
	}

	h.MustSend(testkit.Beat{User: first, Device: 7})
	testkit.Until(t, "user 1 is online after the restart", time.Second, func() bool { return h.State(first) == "online" })
	if got := h.HistoryOf(first, 4); len(got) != 4 || got[3].From != "offline" || got[3].To != "online" {
		t.Errorf("the history of user 1 is %+v, must end with a fourth change, offline→online", got)
	}
}

// sees checks that the user's state becomes this one after the instant, but not
// long after.
func sees(h *testkit.Dev, user schemas.UserID, state string, at schemas.Millis) {
	h.Helper()
	testkit.Until(h.T, "user is "+state, 10*time.Second, func() bool { return h.State(user) == state })
	if late := schemas.MillisOf(time.Now()) - at; late < 0 || late > seenWithin {
		h.Errorf("%s was seen %d ms after its instant, must be between 0 and %d ms", state, late, seenWithin)
	}
}

// timelineIs checks that a user's history is that of one beat.
func timelineIs(h *testkit.Dev, user schemas.UserID, at schemas.Millis) {
	h.Helper()
	got := h.HistoryOf(user, 3)
	testkit.Chained(h.T, user, got)
	for i := range got { // what the timeline does not hold
		got[i].Event, got[i].Version = "", 0
	}
	want := []testkit.Entry{
		{From: "offline", To: "online", At: at, LastSeen: at, Cause: "first_beat"},
		{From: "online", To: "away", At: at + awayAfter, LastSeen: at, Cause: "silent"},
		{From: "away", To: "offline", At: at + offlineAfter, LastSeen: at, Cause: "silent"},
	}
	if !reflect.DeepEqual(got, want) {
		h.Errorf("the history of user %d is\n  %+v\nmust be\n  %+v", user, got, want)
	}
}

//go:build unix

package process_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// timeline is the policy of the tests that look at the clock: away 3 s after the
// last beat, offline 6 s after it.
var timeline = []string{"--online-ttl", "2s", "--offline-debounce", "1s", "--away-ttl", "6s"}

const (
	awayAfter    = 3000 // milliseconds
	offlineAfter = 6000
	onlineWithin = 300 * time.Millisecond
	seenWithin   = 700 // milliseconds after the instant
)

// Not parallel: it looks at the clock, and the others would take the time it
// measures.
func TestTheTimelineOfOneBeatIsSeenInTimeAndKeptExactly(t *testing.T) {
	h := newHouse(t, timeline...)
	h.up()
	sent := time.Now()
	h.mustSend(beat{User: 1, Device: 7, Kind: "mobile"})
	answered := schemas.MillisOf(time.Now())
	until(t, "the user is online", 10*time.Second, func() bool { return h.state(1) == "online" })
	if took := time.Since(sent); took > onlineWithin {
		t.Errorf("the user was online %s after the beat was sent, must be within %s", took, onlineWithin)
	}
	first := h.historyOf(1, 1)
	if len(first) != 1 {
		t.Fatalf("after one beat the history is %+v", first)
	}
	at := first[0].At
	if at < schemas.MillisOf(sent) || at > answered {
		t.Errorf("the beat's time is %s, it was sent at %s and answered at %s", at, schemas.MillisOf(sent), answered)
	}
	h.sees(1, "away", at+awayAfter)
	h.sees(1, "offline", at+offlineAfter)
	h.timelineIs(1, at)

	// User 2 is online, user 3 hides, user 4 is away when the process is killed.
	h.mustSend(beat{User: 4, Device: 1})
	h.mustSend(beat{User: 3, Device: 1})
	h.show(3, "nobody")
	until(t, "user 3 is hidden", 5*time.Second, func() bool { return h.state(3) == "hidden" })
	until(t, "user 4 is away", 10*time.Second, func() bool { return h.state(4) == "away" })
	h.mustSend(beat{User: 2, Device: 1}, beat{User: 3, Device: 1})
	until(t, "user 2 is online", 5*time.Second, func() bool { return h.state(2) == "online" })
	second, fourth := h.historyOf(2, 1)[0].At, h.historyOf(4, 2)[0].At
	h.kill()
	killed := time.Now()
	h.up()
	// Ready: what was known before the kill is known, and what has become due
	// since will be within the usual time.
	down := time.Since(killed)
	if got := h.states(1, 3); !reflect.DeepEqual(got, map[schemas.UserID]string{1: "offline", 3: "hidden"}) {
		t.Errorf("after the kill the states are %v", got)
	}
	if got := h.state(2); schemas.MillisOf(time.Now()) < second+awayAfter && got != "online" {
		t.Errorf("user 2 was online when the process was killed and is %s before its time is over", got)
	}
	h.timelineIs(1, at)
	for user, at := range map[schemas.UserID]schemas.Millis{4: fourth, 2: second} {
		until(t, "the silent user is offline", 15*time.Second, func() bool { return h.state(user) == "offline" })
		if down < 4*time.Second {
			h.timelineIs(user, at)
		} else { // a log that stands still for 5 s does not count as silence
			t.Logf("starting again took %s, so user %d may have been given more time: %+v", down, user, h.historyOf(user, 3))
		}
	}
	if got := h.history(3); len(got) != 0 {
		t.Errorf("the history of a hidden user is %+v", got)
	}
	h.show(3, "everyone")
	until(t, "user 3 is seen again, offline", 10*time.Second, func() bool { return h.state(3) == "offline" })
	if got := h.historyOf(3, 2); len(got) != 2 || got[0].Cause != "first_beat" || got[1].Cause != "visibility" || got[1].To != "offline" {
		t.Errorf("the history of user 3, who was hidden in between, is %+v, must be of the time before and after", got)
	}

	h.mustSend(beat{User: 1, Device: 7})
	until(t, "user 1 is online after the restart", time.Second, func() bool { return h.state(1) == "online" })
	if got := h.historyOf(1, 4); len(got) != 4 || got[3].From != "offline" || got[3].To != "online" {
		t.Errorf("the history of user 1 is %+v, must end with a fourth change, offline→online", got)
	}
}

// sees checks that the user's state becomes this one after the instant, but not
// long after.
func (h *house) sees(user schemas.UserID, state string, at schemas.Millis) {
	h.Helper()
	until(h.T, "user is "+state, 10*time.Second, func() bool { return h.state(user) == state })
	if late := schemas.MillisOf(time.Now()) - at; late < 0 || late > seenWithin {
		h.Errorf("%s was seen %d ms after its instant, must be between 0 and %d ms", state, late, seenWithin)
	}
}

// timelineIs checks that a user's history is that of one beat.
func (h *house) timelineIs(user schemas.UserID, at schemas.Millis) {
	h.Helper()
	got := h.historyOf(user, 3)
	chained(h.T, user, got)
	for i := range got { // what the timeline does not tell
		got[i].Event, got[i].Version = "", 0
	}
	want := []entry{
		{From: "offline", To: "online", At: at, LastSeen: at, Cause: "first_beat"},
		{From: "online", To: "away", At: at + awayAfter, LastSeen: at, Cause: "silent"},
		{From: "away", To: "offline", At: at + offlineAfter, LastSeen: at, Cause: "silent"},
	}
	if !reflect.DeepEqual(got, want) {
		h.Errorf("the history of user %d is\n  %+v\nmust be\n  %+v", user, got, want)
	}
}

// chained checks that a history has no gap, nothing twice, and goes forward.
func chained(t *testing.T, user schemas.UserID, history []entry) {
	t.Helper()
	events := map[string]bool{}
	state, before := "offline", entry{}
	for i, e := range history {
		switch {
		case e.From != state:
			t.Errorf("user %d, change %d is from %s, the one before it was to %s: %+v", user, i, e.From, state, history)
		case e.Version <= before.Version:
			t.Errorf("user %d, change %d has version %d after version %d", user, i, e.Version, before.Version)
		case e.At < before.At:
			t.Errorf("user %d, change %d is at %s, the one before it at %s", user, i, e.At, before.At)
		case events[e.Event]:
			t.Errorf("user %d, change %d has the event id %s, which an earlier one has", user, i, e.Event)
		}
		events[e.Event] = true
		state, before = e.To, e
	}
}

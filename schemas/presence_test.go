package schemas

import (
	"encoding/json"
	"testing"
)

// step is a transition of user 1 with some defaults.
func step(version Version, from, to State, cause Cause, visibility Visibility) *Transition {
	return &Transition{User: 1, From: from, To: to, At: Millis(version) * 1000, LastSeen: Millis(version) * 1000, LastActive: 1000,
		Cause: cause, Visibility: visibility, Version: version}
}

func TestSinceIsWhenTheStateLastChanged(t *testing.T) {
	t.Parallel()
	var c Current
	for _, tr := range []*Transition{
		step(1, Offline, Online, FirstBeat, Everyone),
		step(2, Online, Online, DevicesChanged, Everyone),
	} {
		c = c.After(tr)
	}
	if c.Since != 1000 || c.LastSeen != 2000 || c.State != Online {
		t.Errorf("is %+v", c)
	}
	if c = c.After(step(3, Online, Away, Idle, Everyone)); c.Since != 3000 {
		t.Errorf("since %v after a change of state", c.Since)
	}
}

func TestAnOlderTransitionChangesNothing(t *testing.T) {
	t.Parallel()
	c := Current{}.After(step(5, Offline, Online, FirstBeat, Everyone))
	for _, version := range []Version{1, 4, 5} {
		if got := c.After(step(version, Online, Offline, Bye, Everyone)); got != c {
			t.Errorf("version %d changes it to %+v", version, got)
		}
	}
}

func TestNothingOfAHiddenUserIsShownAndNoLaterVersionEither(t *testing.T) {
	t.Parallel()
	c := Current{}.After(step(1, Offline, Online, FirstBeat, Everyone)).After(step(2, Online, Online, VisibilityChange, Nobody))
	hidden, err := json.Marshal(PresenceOf(c, 0, 0))
	const want = `{"user_id":"1","state":null,"last_seen_at":null,"last_active_at":null,"devices":null,"kinds":null,"since":null,"version":"2","stale_since":null}`
	if err != nil || string(hidden) != want {
		t.Errorf("is %s, %v", hidden, err)
	}
	for _, tr := range []*Transition{step(3, Online, Offline, Bye, Nobody), step(4, Offline, Online, FirstBeat, Nobody)} {
		c = c.After(tr)
		if got, _ := json.Marshal(PresenceOf(c, 0, 0)); string(got) != want {
			t.Errorf("after %+v is %s", tr, got)
		}
	}
	shown := PresenceOf(c.After(step(5, Online, Online, VisibilityChange, Everyone)), 0, 0)
	if *shown.State != "online" || shown.Version != "5" || !shown.Newer(PresenceOf(c, 0, 0)) {
		t.Errorf("shown again it is %+v", shown)
	}
}

func TestAUserOfWhomNothingIsKnownIsOffline(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(NeverSeen(7, 1_763_700_000_000))
	const want = `{"user_id":"7","state":"offline","last_seen_at":null,"last_active_at":null,"devices":[],"kinds":{},"since":null,"version":"0","stale_since":"2025-11-21T04:40:00.000Z"}`
	if err != nil || string(got) != want {
		t.Errorf("is %s, %v", got, err)
	}
}

func TestNewerGoesByTheNumberAndNotByTheText(t *testing.T) {
	t.Parallel()
	if !(Presence{Version: "10"}).Newer(Presence{Version: "9"}) || (Presence{Version: "9"}).Newer(Presence{Version: "9"}) {
		t.Error("10 is newer than 9, and 9 is not newer than 9")
	}
}

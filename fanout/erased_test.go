package fanout_test

import (
	"strings"
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheErasureOfAHiddenUserDoesNotSayThatTheUserWasOnline(t *testing.T) {
	// What the machine emits for a user who hid while online (detector/liveness/erase.go: from is u.state).
	erased := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Offline, At: 1_763_700_000_000, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Version: 6, ErasedUntil: 1_764_700_000_000}
	seen, ok := shown.AsIfOffline(erased)
	c, ok2 := fanout.ChangeOf(seen)
	if !ok || !ok2 {
		t.Fatal("nothing")
	}
	for _, r := range [][]string{{"2"}, nil} {
		body, _ := schemas.Notice{Transition: c.Transition, Recipients: r}.Body()
		if strings.Contains(string(body), `"previous_state":"online"`) {
			t.Errorf("%s", body)
		}
	}
}

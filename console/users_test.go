package console

import (
	"fmt"
	"testing"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

func TestUsersAreSortedByTheLastSeenThatIsShown(t *testing.T) {
	t.Parallel()
	heard := func(at schemas.Millis) (s redisview.Seen) {
		if at != 0 {
			s.At, s.Interval = at, 60_000
			s.Devices = []redisview.Device{{SeenDevice: schemas.SeenDevice{Device: 1, At: at}}}
		}
		return s
	}
	rows := []*row{{user: 1, seen: 100, state: schemas.Online}, {user: 2, seen: 300, state: schemas.Away}, {user: 3, seen: 200, state: schemas.Online},
		{user: 4, seen: 900, state: schemas.Online, hidden: true}}
	seen := []redisview.Seen{heard(500), heard(0), heard(150), heard(0)}
	var s Server
	for want, of := range map[string]selection{
		"4:0:0 3:200:0 2:300:0 1:500:1 ":   {audience: audience{all: true}, by: "last_seen_at"},
		"1:500:1 2:300:0 3:200:0 4:0:0 ":   {audience: audience{all: true}, by: "last_seen_at", down: true},
		"3:200:0 2:300:0 1:500:1 4:900:0 ": {audience: audience{all: true, admin: true}, by: "last_seen_at"},
	} {
		got := ""
		sorted, with := of.byLastSeen(rows, seen)
		for i, r := range sorted {
			u := s.userOf(of, r, with[i])
			coarse := 0
			if u.Coarseness >= 60_000 {
				coarse = 1
			}
			got += fmt.Sprintf("%s:%d:%d ", *u.UserID, u.LastSeenAt, coarse)
		}
		if got != want {
			t.Errorf("%+v lists %q, not %q", of, got, want)
		}
	}
	if rows[0].user != 1 || rows[3].user != 4 {
		t.Error("the list of others was sorted as well")
	}
}

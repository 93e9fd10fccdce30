package console

import (
	"fmt"
	"testing"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheListShowsTheNewestLastSeenAndOfHiddenUsersNone(t *testing.T) {
	t.Parallel()
	var s Server
	seen := redisview.Seen{At: 500, Interval: 60_000, Devices: []redisview.Device{{SeenDevice: schemas.SeenDevice{Device: 1, At: 500}}}}
	for want, c := range map[string]struct {
		admin bool
		row   row
		seen  redisview.Seen
	}{
		"500 true":  {row: row{user: 1, seen: 100, state: schemas.Online}, seen: seen},
		"900 false": {row: row{user: 1, seen: 900, state: schemas.Online}, seen: seen},
		"300 false": {row: row{user: 2, seen: 300, state: schemas.Away}},
		"0 false":   {row: row{user: 4, seen: 800, state: schemas.Online, hidden: true}},
		"800 false": {admin: true, row: row{user: 4, seen: 800, state: schemas.Online, hidden: true}},
	} {
		u := s.userOf(selection{audience: audience{all: true, admin: c.admin}}, &c.row, c.seen)
		if got := fmt.Sprint(int64(u.LastSeenAt), u.Coarseness >= 60_000); got != want {
			t.Errorf("%+v is shown as %s, not %s", c.row, got, want)
		}
	}
}

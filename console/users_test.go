package console

import (
	"fmt"
	"testing"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

var heardAt500 = redisview.Seen{At: 500, Interval: 60_000, Devices: []redisview.Device{{SeenDevice: schemas.SeenDevice{Device: 1, At: 500}}}}

// serverUnder is a server in a pipeline with a policy.
func serverUnder(p schemas.Policy) *Server {
	return &Server{ConsoleParts: app.ConsoleParts{Current: func() app.Config { return app.Config{Policy: p} }}}
}

func TestTheListShowsTheNewestLastSeenAndOfHiddenUsersNone(t *testing.T) {
	t.Parallel()
	s := serverUnder(schemas.Policy{})
	for want, c := range map[string]struct {
		admin bool
		row   row
		seen  redisview.Seen
	}{
		"500 true":  {row: row{user: 1, seen: 100, state: schemas.Online}, seen: heardAt500},
		"900 false": {row: row{user: 1, seen: 900, state: schemas.Online}, seen: heardAt500},
		"300 false": {row: row{user: 2, seen: 300, state: schemas.Away}},
		"0 false":   {row: row{user: 4, seen: 800, state: schemas.Online, hidden: true}},
		"800 false": {admin: true, row: row{user: 4, seen: 800, state: schemas.Online, hidden: true}},
	} {
		u := s.userOf(selection{audience: audience{all: true, admin: c.admin}, server: s}, &c.row, c.seen)
		if got := fmt.Sprint(int64(u.LastSeenAt), u.Coarseness >= 60_000); got != want {
			t.Errorf("%+v is shown as %s, not %s", c.row, got, want)
		}
	}
}

func TestTheListAndTheFeedHaveNoTimesOfUsersWhoDoNotShowThemExceptForAdministrators(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		admin, coarse bool
		state         schemas.State
		chosen        schemas.LastSeen
	}{
		`online 100 500 ""`:       {state: schemas.Online},
		`online 100 0 "recently"`: {state: schemas.Online, coarse: true},
		`away 0 0 "recently"`:     {state: schemas.Away, chosen: schemas.SeenCoarsely},
		`away 0 0 "hidden"`:       {state: schemas.Away, coarse: true, chosen: schemas.SeenNever},
		`away 100 500 ""`:         {admin: true, state: schemas.Away, coarse: true, chosen: schemas.SeenNever},
	} {
		s := serverUnder(schemas.Policy{CoarseLastSeen: c.coarse})
		who := audience{all: true, admin: c.admin}
		u := s.userOf(selection{audience: who, server: s}, &row{user: 1, since: 100, seen: 90, state: c.state, lastSeen: c.chosen}, heardAt500)
		if got := fmt.Sprintf("%s %d %d %q", u.State, u.Since, u.LastSeenAt, u.LastSeen); got != want {
			t.Errorf("%+v is shown as %s, not %s", c, got, want)
		}
		f := &feedFilter{audience: who}
		seen, _ := f.shows(&schemas.Transition{User: 1, LastSeen: 500, Override: schemas.Override{LastSeen: c.chosen}})
		if got := s.feedRowOf(f, seen).LastSeenAt; got != u.LastSeenAt {
			t.Errorf("%+v is last seen at %d in the feed, at %d in the list", c, got, u.LastSeenAt)
		}
	}
}

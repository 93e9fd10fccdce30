package query_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

func TestUnsureSinceIsShownOnlyWhileNoNewerChangeOfAVisiblePresentUserIsKnown(t *testing.T) {
	now := schemas.MillisOf(time.Now())
	for name, c := range map[string]struct {
		then  *schemas.Transition // after the user became unsure
		ended bool
		shown bool
	}{
		"nothing else happened": {shown: true},
		"it ended":              {ended: true},
		"the user hid": {then: &schemas.Transition{From: schemas.Online, To: schemas.Online, Cause: schemas.VisibilityChange,
			Visibility: schemas.Nobody}},
		"the user went away": {then: &schemas.Transition{From: schemas.Online, To: schemas.Away, Cause: schemas.GatewayLost,
			Visibility: schemas.Everyone}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Mini(t))
			w.happen(t, arrives(1, 10, now-3_600_000))
			w.upTo(t, now)
			records := []redisview.Unsure{{User: 1, Version: 15, Since: now - 1000}}
			if c.ended {
				records = append(records, redisview.Unsure{User: 1, Version: 16})
			}
			must.Get(w.view.WriteUnsure(t.Context(), records))(t)
			if c.then != nil {
				c.then.User, c.then.Version, c.then.At = 1, 20, now-500
				w.durably(t, c.then)
				w.inRedis(t, c.then)
			}
			for _, path := range []string{"/presence/1", "/presence/changes?user_ids=1"} {
				status, body := w.get(t, path)
				if status != 200 || strings.Contains(body, "unsure_since") != c.shown {
					t.Errorf("%s answers %d %s", path, status, body)
				}
			}
			_, body := w.get(t, "/presence/batch?user_ids=1,2&unsure=mark")
			posted := w.ask(t, http.MethodPost, "/presence/batch?unsure=mark", `{"user_ids":[1,2]}`).Body.String()
			if strings.Contains(body, `{"1":"unsure","2":"offline"}`) != c.shown || posted != body {
				t.Errorf("a batch that marks is answered %s, and in a body %s", body, posted)
			}
			users := must.Get(w.reader.Read(t.Context(), []schemas.UserID{1, 2}, nil))(t)
			if (users[0].UnsureSince == now-1000) != c.shown || users[1].UnsureSince != 0 {
				t.Errorf("the stream reads %+v", users)
			}
		})
	}
}

// forgetful is Redis that does not answer in time who is unsure.
type forgetful struct{ query.View }

func (forgetful) Unsure(context.Context, []schemas.UserID) ([]redisview.Unsure, error) {
	return nil, context.DeadlineExceeded
}

func TestAnswersThatCannotSayWhetherAUserIsUnsureAreStaleUntilTheyCan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.happen(t, arrives(1, 10, now-3_600_000), arrives(2, 11, now-60_000), leaves(2, 12, now-50_000))
	w.upTo(t, now)
	must.Get(w.view.WriteUnsure(t.Context(), []redisview.Unsure{{User: 1, Version: 15, Since: now - 1000}}))(t)
	for _, answers := range []bool{false, true} {
		view := query.View(w.view)
		if !answers {
			view = forgetful{view}
		}
		w.serve(view, w.durable)
		for _, path := range []string{"/presence/1", "/presence/changes?user_ids=1"} {
			status, body := w.get(t, path)
			if status != 200 || strings.Contains(body, `"stale_since":null`) != answers || strings.Contains(body, "unsure_since") != answers {
				t.Errorf("%s is answered with %d %s", path, status, body)
			}
		}
		w.want(t, "/presence/batch?user_ids=1,2,3&unsure=mark", `{"1":"unsure","2":"offline","3":"offline"}`)
		users := must.Get(w.reader.Read(t.Context(), []schemas.UserID{1, 2, 3}, nil))(t)
		if (users[0].StaleSince == 0) != answers || users[1].StaleSince != 0 || users[2].StaleSince != 0 {
			t.Errorf("the stream reads %+v", users)
		}
	}
}

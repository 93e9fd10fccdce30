package query_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// whole is everything that the endpoints say of a user, headers too, but for its id.
func (w *world) whole(t *testing.T, user schemas.UserID) string {
	t.Helper()
	var all []string
	for _, path := range []string{"/presence/%s", "/presence/batch?user_ids=%s", "/presence/%s/history"} {
		recorder := w.ask(t, http.MethodGet, fmt.Sprintf(path, user), "")
		all = append(all, fmt.Sprint(recorder.Code, recorder.Header(), recorder.Body))
	}
	return strings.ReplaceAll(strings.Join(all, "\n"), `"`+user.String()+`"`, `"U"`)
}

func shows(user schemas.UserID, version schemas.Version, at schemas.Millis, state schemas.State) *schemas.Transition {
	t := arrives(user, version, at)
	t.From, t.To, t.Cause, t.LastSeen, t.LastActive = state, state, schemas.VisibilityChange, at-30_000, at-40_000
	return t
}

// hiders are users of other partitions.
var hiders = []schemas.UserID{11, 12, 13}

// lives hide at the same instant; the first one goes on being here, the second one leaves
// in hiding and stays away, the third one comes and goes.
func lives(of schemas.UserID, at schemas.Millis) []*schemas.Transition {
	log := []*schemas.Transition{arrives(of, 1, at), hides(of, 2, at+1000)}
	switch of % 10 {
	case 2:
		log = append(log, hidden(leaves(of, 3, at+2000)))
	case 3:
		log = append(log, hidden(leaves(of, 3, at+2000)), hidden(arrives(of, 4, at+3000)))
	}
	return log
}

func TestAHiddenUserLooksTheSameWhateverRedisHasLostOfIt(t *testing.T) {
	t.Parallel()
	for name, offline := range map[string]bool{"as null": false, "as offline": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Mini(t))
			w.hiddenOffline = offline
			w.serve(w.view, w.durable)
			before := now() - 3_600_000
			seen := map[string]string{}
			at := func(where string) {
				t.Helper()
				for _, user := range hiders {
					seen[fmt.Sprint(where, " ", user%10)] = w.whole(t, user)
				}
			}
			for _, user := range hiders {
				w.durably(t, lives(user, before)...)
			}
			w.upTo(t, now())
			at("evicted")
			for _, user := range hiders {
				w.inRedis(t, lives(user, before)...)
			}
			at("there")
			for _, user := range hiders { // what came last is there alone, the rest was evicted
				w.inRedis(t, hidden(leaves(user, 9, before+9000)))
			}
			at("there in part")
			for where, text := range seen {
				if text != seen["there 1"] {
					t.Errorf("%s is\n%s\nnot\n%s", where, text, seen["there 1"])
				}
			}
		})
	}
}

func TestAUserHiddenAsOfflineLooksLikeOneWhoWentOfflineThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.hiddenOffline = true
	w.serve(w.view, w.durable)
	w.upTo(t, now())
	const hider, leaver = 12, 17
	w.happen(t, lives(hider, day)...)
	gone := leaves(leaver, 2, day+1000)
	gone.LastSeen, gone.LastActive = gone.At, hides(hider, 2, day+1000).LastActive
	w.happen(t, arrives(leaver, 1, day), gone)
	for _, path := range []string{"/presence/%d", "/presence/batch?user_ids=%d"} {
		_, a := w.get(t, fmt.Sprintf(path, hider))
		_, b := w.get(t, fmt.Sprintf(path, leaver))
		if a = strings.ReplaceAll(a, `"12"`, `"U"`); a != strings.ReplaceAll(b, `"17"`, `"U"`) {
			t.Errorf("a hidden user is told as %s, who left as %s", a, b)
		}
	}
}

func TestWhenAUserShowsAgainItsTimesBeginThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.upTo(t, now())
	const show = day + 60_000
	for user, state := range map[schemas.UserID]schemas.State{11: schemas.Online, 12: schemas.Offline, 13: schemas.Online} {
		w.happen(t, lives(user, day)...)
		w.happen(t, shows(user, 5, show, state))
	}
	begins := func(user schemas.UserID) {
		t.Helper()
		users := must.Get(w.reader.Read(t.Context(), []schemas.UserID{user}, nil))(t)
		if u := users[0]; u.Since < show || u.LastSeenAt < show || u.LastActiveAt < show {
			t.Errorf("user %d, who showed at %s, is told as %+v", user, show, u)
		}
		if _, text := w.get(t, fmt.Sprintf("/presence/%d/history?from=%d", user, int64(show))); strings.Contains(text, (show-30_000).String()) ||
			strings.Contains(text, (show-40_000).String()) {
			t.Errorf("the history tells of when the user hid: %s", text)
		}
	}
	for _, user := range hiders {
		begins(user)
	}
	// A change after the show has the times of the last beat, before it.
	silent := leaves(11, 6, show+10_000)
	silent.LastSeen, silent.LastActive = show-30_000, show-40_000
	w.happen(t, silent)
	begins(11)
	// As does one that Redis has alone, after it has lost the user.
	again := newWorld(t, redistest.Mini(t))
	again.upTo(t, now())
	again.durably(t, append(lives(11, day), shows(11, 5, show, schemas.Online), silent)...)
	must.Get(again.view.Write(t.Context(), 1, store.Fold([]*schemas.Transition{silent})))(t)
	w = again
	begins(11)
}

//go:build unix

package attack_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// One changes more often while it hides than is published, the other one does nothing. When
// they show again, nobody can tell which is which.
func TestChangesOfAHiddenUserDoNotShowWhenItIsVisibleAgain(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	const flaps, rests = 1, 2
	come := []testkit.Beat{{User: flaps, Device: 7}, {User: rests, Device: 7}}
	h.MustSend(come...)
	h.AllAre("online", users(flaps, rests))
	h.Show(flaps, "nobody")
	h.Show(rests, "nobody")
	h.AllAre("hidden", users(flaps, rests))
	for range 30 {
		h.MustSend(testkit.Beat{User: flaps, Device: 7, Bye: true})
		h.MustSend(testkit.Beat{User: flaps, Device: 7})
	}
	h.Show(flaps, "everyone")
	h.Show(rests, "everyone")
	h.AllAre("online", users(flaps, rests))
	for _, user := range users(flaps, rests) {
		h.HistoryOf(user, 2)
		_, text, err := h.Ask(http.MethodGet, "/presence/"+user.String()+"/history", "", nil)
		must.Do(t, err)
		var page struct {
			Changes []struct {
				From, To, Cause string
				At              time.Time
				LeftOut         int `json:"left_out"`
			}
		}
		must.Do(t, json.Unmarshal(text, &page))
		show := page.Changes[0]
		if len(page.Changes) != 2 || show.Cause != "visibility" || show.From != "online" || show.To != "online" || show.LeftOut != 0 {
			t.Errorf("the history of user %d tells %s", user, text)
		}
	}
}

func TestAnObserverSeesAHiddenUserAsReadersDo(t *testing.T) {
	t.Parallel()
	h := newGuardedHouse(t, "--limit-requests", "0")
	h.Up()
	by := func(scope string) string { return issued(t, auth.Caller{Gateway: "gw", Scopes: []string{scope}}) }
	reader, observer, admin := by(auth.Read), by(auth.Observe), by(auth.Admin)
	with(h, admin, "POST", "/presence/heartbeats", `{"beats":[{"user_id":"1","device_id":"7"}]}`)
	with(h, admin, "PUT", "/presence/1/visibility", `{"visibility":"nobody"}`)
	testkit.Until(t, "the administrator sees the hidden user", 20*time.Second, func() bool {
		_, list := with(h, admin, "GET", "/console/api/users", "")
		return strings.Contains(list, `"state":"online"`) && strings.Contains(list, `"visibility":"nobody"`)
	})
	if _, list := with(h, observer, "GET", "/console/api/users", ""); !strings.Contains(list, `"state":"hidden","since":null,"last_seen_at":null`) {
		t.Errorf("the observer sees %s", list)
	}
	for _, path := range []string{"/presence/1", "/presence/batch?user_ids=1", "/presence/1/history", "/presence/1?devices=true", "/presence/1/visibility", "/presence/1/audience", "/presence/1/audience/deny", "/presence/1/override", "/presence/1/export", "/presence/push?user_ids=1"} {
		status, read := with(h, reader, "GET", path, "")
		if as, observed := with(h, observer, "GET", path, ""); as != status || observed != read {
			t.Errorf("%s is answered %d %s to a reader, and %d %s to an observer", path, status, read, as, observed)
		}
	}
}

func TestAnExplanationKeepsTimesThatTheUserDoesNotShow(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	h.MustSend(testkit.Beat{User: 1, Device: 7})
	explain := "/console/api/explain?event_id=" + h.HistoryOf(1, 1)[0].Event
	for _, choice := range []struct {
		lastSeen string
		status   int
	}{{"exact", http.StatusOK}, {"coarse", http.StatusNotFound}, {"never", http.StatusNotFound}, {"exact", http.StatusOK}} {
		with(h, "", "PUT", "/presence/1/audience", `{"last_seen":"`+choice.lastSeen+`"}`)
		testkit.Until(t, "a change from before is explained as the user shows times", 20*time.Second, func() bool {
			status, _, err := h.Ask(http.MethodGet, explain, "", nil)
			return err == nil && status == choice.status
		})
	}
}

func users(ids ...schemas.UserID) []schemas.UserID { return ids }

//go:build unix

package attack_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

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

func users(ids ...schemas.UserID) []schemas.UserID { return ids }

//go:build unix

package process_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// One changes more often while it hides than is published, the other one does nothing. When
// they show again, nobody can tell which is which.
func TestWhoChangesOftenWhileHidingTellsNothingOfItAtTheShow(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.up()
	const flaps, rests = 1, 2
	come := []beat{{User: flaps, Device: 7}, {User: rests, Device: 7}}
	h.mustSend(come...)
	h.allAre("online", users(flaps, rests))
	h.show(flaps, "nobody")
	h.show(rests, "nobody")
	h.allAre("hidden", users(flaps, rests))
	for range 30 {
		h.mustSend(beat{User: flaps, Device: 7, Bye: true})
		h.mustSend(beat{User: flaps, Device: 7})
	}
	h.show(flaps, "everyone")
	h.show(rests, "everyone")
	h.allAre("online", users(flaps, rests))
	for _, user := range users(flaps, rests) {
		h.historyOf(user, 2)
		_, text, err := h.ask(http.MethodGet, "/presence/"+user.String()+"/history", "", nil)
		check(t, err)
		var page struct {
			Changes []struct {
				From, To, Cause string
				At              time.Time
				LeftOut         int `json:"left_out"`
			}
		}
		check(t, json.Unmarshal(text, &page))
		show := page.Changes[0]
		if len(page.Changes) != 2 || show.Cause != "visibility" || show.From != "online" || show.To != "online" || show.LeftOut != 0 {
			t.Errorf("the history of user %d tells %s", user, text)
		}
	}
}

func users(ids ...schemas.UserID) []schemas.UserID { return ids }

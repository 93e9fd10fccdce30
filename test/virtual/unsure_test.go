package virtual

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// Users 1 to 3 come through a gateway that dies; 1 returns through another, 2 does not, and 3 hides.
func TestUsersOfALostGatewayAreShownAsUnsureUntilThatIsSettledUnlessTheyHide(t *testing.T) {
	inBothWorlds(t, size{partitions: 2}, func(w *world) {
		all := w.startAll()
		api, in := all["api"].base, all["ingest"].base
		beat := func(through string, users ...schemas.UserID) {
			var rows []row
			for _, user := range users {
				rows = append(rows, row{User: user, Device: 1, Kind: "mobile"})
			}
			w.mustPost(in, gateway{through, began}, rows...)
		}
		from := now()
		last := from + 30*second
		for at := from; at <= last; at += 15 * second {
			w.sleepTo(at)
			beat("dies", 1, 2, 3)
		}
		w.show(in, 3, "nobody")
		v := w.watch(api, 1, 2, 3)
		unsure := func(user schemas.UserID) schemas.Millis { return w.user(api, user).UnsureSince }
		// sent reports whether the viewer was last sent the user as unsure.
		sent := func(user schemas.UserID) (unsure bool) {
			for _, m := range slices.Concat(v.messages(watch.Snapshot), v.messages(watch.Resync)) {
				for _, p := range m.Users {
					if p.UserID == user.String() {
						unsure = p.UnsureSince != 0
					}
				}
			}
			return unsure
		}

		// ingest speaks for the gateway for 10 s, and then it has to be silent for 10 s.
		w.sleepTo(last + 17*second)
		if unsure(1) != 0 || unsure(2) != 0 {
			w.Error("users are unsure before their gateway is lost")
		}
		w.sleepTo(last + 22*second)
		if unsure(1) == 0 || unsure(2) == 0 || !sent(1) || !sent(2) {
			w.Errorf("2 s after the loss users are unsure since %v and %v, and viewers know it: %v, %v", unsure(1), unsure(2), sent(1), sent(2))
		}
		if p := w.user(api, 2); word(p.State) != "online" || p.UnsureSince <= last || p.UnsureSince >= last+45*second {
			w.Errorf("user 2 is %s and unsure since %s", word(p.State), p.UnsureSince)
		}
		_, text := w.ask(http.MethodPost, api+"/presence/batch", map[string]any{"user_ids": []string{"1", "2", "3"}, "detail": true})
		var detail struct{ Users []schemas.Presence }
		if err := json.Unmarshal(text, &detail); err != nil || len(detail.Users) != 3 || detail.Users[1].UnsureSince != unsure(2) {
			w.Errorf("the batch is %s (%v)", text, err)
		}
		_, text = w.ask(http.MethodGet, api+"/presence/changes?user_ids=1&user_ids=2&user_ids=3", nil)
		if n := strings.Count(string(text), "unsure_since"); n != 2 {
			w.Errorf("%d users are unsure in %s", n, text)
		}

		all["detector"].stop()
		all["detector"] = w.start("detector", "detector")
		if unsure(1) == 0 || unsure(2) == 0 {
			w.Error("a restart of the detector made users sure")
		}
		beat("lives", 1)
		w.until("user 1 is sure, at every reader", 10*time.Second, func() bool { return unsure(1) == 0 && !sent(1) })
		if p := w.user(api, 1); word(p.State) != "online" {
			w.Errorf("user 1 returned and is %s", word(p.State))
		}
		if !sent(2) || unsure(2) == 0 {
			w.Error("user 2 is sure although nothing was heard")
		}
		w.until("the window ends", 2*time.Minute, func() bool { return word(w.user(api, 2).State) == "away" })
		if unsure(2) != 0 {
			w.Error("user 2 is away and unsure")
		}
		changesOf2 := func() (changes []schemas.User) {
			return slices.DeleteFunc(v.changes(), func(p schemas.User) bool { return p.UserID != "2" })
		}
		w.until("the viewer has heard of it", time.Minute, func() bool { return len(changesOf2()) > 0 })
		if p := changesOf2()[0]; word(p.State) != "away" || p.UnsureSince != 0 {
			w.Errorf("the viewer heard of %+v", p)
		}
		if _, text := w.ask(http.MethodGet, api+"/presence/3", nil); strings.Contains(string(text), "unsure") || sent(3) {
			w.Errorf("a hidden user is shown as unsure: %s", text)
		}
		users := w.byNumber(byUser(w.likeTheOracle()))
		w.only(users, 1, schemas.Online)
		w.only(users, 2, schemas.Online, schemas.Away)
		v.stop()
	})
}

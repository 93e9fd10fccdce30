package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout/live/watchclient"
	"github.com/stillhere/stillhere/schemas"
)

var staleSince = regexp.MustCompile(`"stale_since":("[^"]*"|null)`)

// What others see of users 1 and 2, who hid at the same instant, may not differ by
// what they do: 1 comes and goes, 2 has left for ever. Nor may their histories
// differ from that of user 3, who was never seen.
func TestWhoHidesAndLivesLooksLikeWhoHidesAndIsGone(t *testing.T) {
	const lives, gone, never = 1, 2, 3
	inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		from := now() + second - now()%second
		for _, user := range []schemas.UserID{lives, gone} {
			w.mustPost(p.door, gateway{}, row{User: user, Device: 7, Kind: "mobile"})
		}
		v := w.watch(p.door, lives, gone, never)
		w.sleepTo(from + 10*second)
		for _, user := range []schemas.UserID{lives, gone} {
			w.show(p.door, user, "nobody")
		}
		time.Sleep(time.Second)
		heard := len(v.changes())
		hidden := map[schemas.UserID]string{}
		for _, user := range []schemas.UserID{lives, gone} {
			hidden[user] = w.user(p.door, user).Version
		}
		end := from + 12*minute
		someone := &person{user: lives, device: 8, kind: "web"}
		for at := from + 15*second; at < end-2*minute; at += 20 * second {
			someone.reports = append(someone.reports, report{at: at, bye: at/(20*second)%2 == 0})
		}
		var living sync.WaitGroup
		living.Go(func() { someone.sendAll(w, p.door) })
		// seen is what the doors say of a user, but for its own id and the version of its
		// hiding, which both say nothing of what it does since.
		seen := func(user schemas.UserID) string {
			var all []string
			for _, path := range []string{"/presence/%s", "/presence/batch?user_ids=%s", "/presence/%s/history"} {
				status, text := w.ask(http.MethodGet, p.door+fmt.Sprintf(path, user), nil)
				all = append(all, fmt.Sprint(status, " ", strings.TrimSpace(string(text))))
			}
			late := w.watch(p.door, user)
			for _, m := range late.messages(watchclient.Snapshot) {
				text, err := json.Marshal(m.Users)
				if err != nil {
					w.Fatal(err)
				}
				all = append(all, string(text))
			}
			late.stop()
			text := strings.Join(all, "\n")
			if version := hidden[user]; version != "" {
				text = strings.ReplaceAll(text, version, "V")
			}
			// Staleness is the partition's, and may end between two requests.
			return strings.ReplaceAll(staleSince.ReplaceAllString(text, `"stale_since":S`), `"`+user.String()+`"`, `"U"`)
		}
		for at, n := from+20*second, 0; at < end; at, n = at+7*second, n+1 {
			w.sleepTo(at)
			if n%10 == 9 { // also while Redis is rebuilt
				w.redis.Server().FlushAll()
			}
			if a, b := seen(lives), seen(gone); a != b {
				w.Fatalf("at %s they differ:\n%s\n\n%s", clock(at), a, b)
			}
			_, a := w.ask(http.MethodGet, p.door+"/presence/1/history", nil)
			if _, b := w.ask(http.MethodGet, p.door+"/presence/3/history", nil); string(a) != string(b) {
				w.Fatalf("the history is %s, that of one never seen %s", a, b)
			}
		}
		living.Wait()
		if got := v.changes()[heard:]; len(got) != 0 {
			w.Errorf("the stream tells of hidden users: %+v", got)
		}
		transitions := byUser(w.likeTheOracle())
		if n := len(transitions[lives]); n < 10 {
			w.Errorf("user %d has changed %d times: the test tested little", lives, n)
		}
		v.stop()
		p.stop()
		w.storedAre(transitions)
	})
}

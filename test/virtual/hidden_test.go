package virtual

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

var staleSince = regexp.MustCompile(`"stale_since":("[^"]*"|null)`)

// What others see of users 1 and 2, who hid at the same instant, may not differ by
// what they do: 1 comes and goes, 2 has left for ever. Nor may their histories
// differ from that of user 3, who was never seen.
func TestAnOnlineHiddenUserLooksLikeAnOfflineHiddenUser(t *testing.T) {
	const lives, gone, never = 1, 2, 3
	inBothWorlds(t, size{partitions: 1, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		from := now() + second - now()%second
		for _, user := range []schemas.UserID{lives, gone} {
			w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile"})
		}
		v := w.watch(p.base, lives, gone, never)
		w.sleepTo(from + 10*second)
		for _, user := range []schemas.UserID{lives, gone} {
			w.show(p.base, user, "nobody")
		}
		time.Sleep(time.Second)
		heard := len(v.changes())
		hidden := map[schemas.UserID]string{}
		for _, user := range []schemas.UserID{lives, gone} {
			hidden[user] = w.user(p.base, user).Version
		}
		end := from + 12*minute
		someone := &person{user: lives, device: 8, kind: "web"}
		for at := from + 15*second; at < end-2*minute; at += 20 * second {
			someone.reports = append(someone.reports, report{at: at, bye: at/(20*second)%2 == 0})
		}
		var living sync.WaitGroup
		living.Go(func() { someone.sendAll(w, p.base) })
		// seen is what the endpoints say of a user, but for its own id and the version of its
		// hiding, which both say nothing of what it does since.
		seen := func(user schemas.UserID) string {
			var all []string
			for _, path := range []string{"/presence/%s", "/presence/batch?user_ids=%s", "/presence/%s/history"} {
				status, text := w.ask(http.MethodGet, p.base+fmt.Sprintf(path, user), nil)
				all = append(all, fmt.Sprint(status, " ", strings.TrimSpace(string(text))))
			}
			late := w.watch(p.base, user)
			for _, m := range late.messages(watch.Snapshot) {
				text := must.Get(json.Marshal(m.Users))(w)
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
			_, a := w.ask(http.MethodGet, p.base+"/presence/1/history", nil)
			if _, b := w.ask(http.MethodGet, p.base+"/presence/3/history", nil); string(a) != string(b) {
				w.Fatalf("the history is %s, that of one never seen %s", a, b)
			}
		}
		living.Wait()
		if got := v.changes()[heard:]; len(got) != 0 {
			w.Errorf("the stream tells of hidden users: %+v", got)
		}
		transitions := byUser(w.likeTheOracle())
		if n := len(transitions[w.id(lives)]); n < 10 {
			w.Errorf("user %d has changed %d times: the test tested little", lives, n)
		}
		v.stop()
		p.stop()
		w.storedAre(transitions)
	})
}

// Times of what a user did while it hid come out by no way when it shows again: not by the
// stream, nor by the reads, after Redis has lost everything neither.
func TestAUserWhoIsVisibleAgainShowsNothingOfTheTimeBefore(t *testing.T) {
	const stays, comes = 1, 2 // one is online all the time, the other one came while it hid and falls silent
	inBothWorlds(t, size{partitions: 1, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		v := w.watch(p.base, stays, comes)
		beat := func(user schemas.UserID) { w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile"}) }
		beat(stays)
		time.Sleep(5 * time.Second)
		for _, user := range []schemas.UserID{stays, comes} {
			w.show(p.base, user, "nobody")
		}
		for range 9 {
			time.Sleep(10 * time.Second)
			beat(stays)
		}
		beat(comes)
		time.Sleep(20 * time.Second)
		beat(stays)
		shown := now()
		for _, user := range []schemas.UserID{stays, comes} {
			w.show(p.base, user, "everyone")
		}
		heard := len(v.changes())
		tells := func(where string, u *schemas.Presence) {
			for name, at := range map[string]schemas.Millis{"since": u.Since, "last_seen_at": u.LastSeenAt, "last_active_at": u.LastActiveAt} {
				if at != 0 && at < shown {
					w.Errorf("%s: %s of user %s is %s, %dms before it showed again", where, name, u.UserID, at, shown-at)
				}
			}
		}
		for round := range 12 { // the silent one goes away and offline meanwhile
			time.Sleep(30 * time.Second)
			beat(stays)
			if round%4 == 1 {
				w.redis.Server().FlushAll()
				time.Sleep(5 * time.Second)
			}
			for _, user := range []schemas.UserID{stays, comes} {
				u := w.user(p.base, user)
				tells(fmt.Sprint("round ", round), &u)
			}
		}
		if u := w.user(p.base, stays); u.State == nil || *u.State != "online" || u.Since == 0 {
			w.Errorf("who stays is shown as %+v", u)
		}
		if u := w.user(p.base, comes); u.State == nil || *u.State != "offline" || u.Since == 0 {
			w.Errorf("who fell silent is shown as %+v", u)
		}
		changes := v.changes()[heard:]
		if len(changes) < 3 {
			w.Errorf("%d changes came after the show", len(changes))
		}
		for _, c := range changes {
			tells("the stream", &c.Presence)
		}
		v.stop()
		p.stop()
	})
}

package virtual

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// override sets what a user is shown as, or without a state ends it.
func (w *world) override(base string, user schemas.UserID, state string, until schemas.Millis) {
	w.Helper()
	method, body := http.MethodPut, map[string]any{"state": state, "note": "at " + state}
	if until != 0 {
		body["until"] = until
	}
	if state == "" {
		method, body = http.MethodDelete, nil
	}
	var sent any
	if body != nil {
		sent = body
	}
	if status, answer := w.ask(method, fmt.Sprintf("%s/presence/%d/override", base, user), sent); status != http.StatusOK {
		w.Errorf("the override %q of %d is answered %d %s", state, user, status, answer)
	}
}

// User 1 is active by an open connection, 2 is offline.
func TestAnOverrideIsSeenUntilItEndsToTheMillisecond(t *testing.T) {
	inBothWorlds(t, size{partitions: 1}, func(w *world) {
		p := w.start("all", "one")
		defer w.connect(p.base, 1, 7, "desktop").lose()
		w.until("online", time.Minute, func() bool { return word(w.user(p.base, 1).State) == "online" })
		v := w.watch(p.base, 1, 2)
		seen := func(what, of string) {
			w.Helper()
			w.until(what, 10*time.Second, func() bool {
				p := w.user(p.base, 1)
				return fmt.Sprintf("%s %t %v", word(p.State), p.DND, p.Kinds) == of
			})
		}
		push := func() string {
			_, text := w.ask(http.MethodGet, p.base+"/presence/push?user_ids=1&user_ids=2", nil)
			return strings.TrimSpace(string(text))
		}

		until := now() + 20_123
		w.override(p.base, 1, "dnd", until)
		w.override(p.base, 2, "dnd", 0)
		seen("not to be disturbed", "online true map[desktop:online]")
		w.until("offline, and not to be disturbed", 10*time.Second, func() bool { return w.user(p.base, 2).DND })
		if got := push(); got != `{"1":"hold","2":"hold"}` {
			w.Errorf("whether to push is answered %s", got)
		}
		w.sleepTo(until + second)
		seen("available", "online false map[desktop:online]")
		w.override(p.base, 1, "away", 0)
		seen("away", "away false map[desktop:away]")
		w.override(p.base, 1, "", 0)
		seen("online again", "online false map[desktop:online]")
		hides := now() + 30_321
		w.override(p.base, 1, "invisible", hides)
		w.until("hidden", 10*time.Second, func() bool { return w.user(p.base, 1).State == nil })
		w.sleepTo(hides + second)
		seen("seen again", "online false map[desktop:online]")

		users := byUser(w.likeTheOracle())
		var causes []string
		for _, tr := range users[w.id(1)] {
			causes = append(causes, schemas.CauseWord(tr.Cause)+" "+schemas.OverrideWord(tr.Override.State))
			if end := tr.Cause == schemas.OverrideOver || tr.Cause == schemas.VisibilityChange && tr.Visibility == schemas.Everyone; end &&
				tr.At != until && tr.At != hides && len(causes) != 5 {
				w.Errorf("an override ends at %s: %s", clock(tr.At), line(&tr))
			}
		}
		if got := strings.Join(causes, ", "); got != "first_beat , override_set dnd, override_over , override_set away, override_over , visibility invisible, visibility " {
			w.Errorf("the transitions are %s", got)
		}
		for _, c := range v.changes() {
			if strings.Contains(fmt.Sprintf("%+v", c), "at dnd") {
				w.Errorf("a viewer was told %+v", c)
			}
		}
		p.stop()
	})
}

// User 1 is active by an open connection, then offline for so long that the detector forgets when the user was here.
func TestOthersLearnOfAUsersTimesWhatTheUserChooses(t *testing.T) {
	inBothWorlds(t, size{partitions: 1}, func(w *world) {
		p := w.start("all", "one")
		c := w.connect(p.base, 1, 7, "desktop")
		w.until("online", time.Minute, func() bool { return word(w.user(p.base, 1).State) == "online" })
		v := w.watch(p.base, 1)
		chooses := func(choice, seen string) {
			w.Helper()
			if status, text := w.ask(http.MethodPut, p.base+"/presence/1/audience", map[string]any{"last_seen": choice}); status != http.StatusOK {
				w.Errorf("the choice %s is answered %d %s", choice, status, text)
			}
			w.until(choice, 10*time.Second, func() bool {
				u := w.user(p.base, 1)
				return fmt.Sprintf("%s %t %t %t %s", word(u.State), u.Since != 0, u.LastSeenAt != 0, u.LastActiveAt != 0, u.LastSeen) == seen
			})
		}
		chooses("coarse", "online true false false recently")
		before := len(v.changes())
		c.leave()
		w.until("offline", 5*time.Minute, func() bool { return word(w.user(p.base, 1).State) == "offline" })
		chooses("coarse", "offline false false false recently")
		w.sleepTo(now() + 20*60*second)
		chooses("never", "offline false false false hidden")
		chooses("coarse", "offline false false false recently")
		for _, u := range v.changes()[before:] {
			if u.LastSeenAt != 0 || u.LastActiveAt != 0 {
				w.Errorf("a viewer was told %+v", u)
			}
		}
		chooses("exact", "offline true true true ")
		want := w.user(p.base, 1)
		w.until("seen by the viewer", 10*time.Second, func() bool {
			read := v.messages(watch.Resync)
			if len(read) == 0 {
				return false
			}
			u := read[len(read)-1].Users[0]
			return u.LastSeenAt == want.LastSeenAt && u.LastActiveAt == want.LastActiveAt && u.Since == want.Since
		})
		chooses("never", "offline false false false hidden")
		if status, text := w.ask(http.MethodDelete, p.base+"/presence/1", nil); status != http.StatusOK {
			w.Errorf("the erasure is answered %d %s", status, text)
		}
		w.until("erased", time.Minute, func() bool { return w.user(p.base, 1).LastSeen == "" })
		w.likeTheOracle()
		p.stop()
	})
}

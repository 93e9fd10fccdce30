package virtual

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// deny changes whom user 1 denies.
func (w *world) deny(base, how, viewer string) {
	w.Helper()
	if status, text := w.ask(http.MethodPost, base+"/presence/1/audience/deny", map[string]any{how: []string{viewer}}); status != http.StatusOK {
		w.Errorf("%s %s is answered %d %s", how, viewer, status, text)
	}
}

// seenBy is the state of user 1 for a viewer; "null": hidden.
func (w *world) seenBy(base, viewer string) string {
	w.Helper()
	status, text := w.ask(http.MethodGet, base+"/presence/1?user_id="+viewer, nil)
	var p schemas.Presence
	if err := json.Unmarshal(text, &p); status != http.StatusOK || err != nil {
		w.Fatalf("GET by %s: %d %s %v", viewer, status, text, err)
	}
	return word(p.State)
}

// Viewers 8 and 9 watch user 1, who has an open connection and denies viewer 8. Then Redis is emptied, and the process is
// replaced.
func TestADeniedViewerLearnsNothingWhateverHappensUntilAllowedAgain(t *testing.T) {
	inBothWorlds(t, size{partitions: 1}, func(w *world) {
		p := w.start("all", "one")
		defer w.connect(p.base, 1, 7, "desktop").lose()
		for _, viewer := range []string{"8", "9"} {
			w.until("online for "+viewer, time.Minute, func() bool { return w.seenBy(p.base, viewer) == "online" })
		}
		watching := func(base, viewer string) *viewer {
			v := w.listen(watch.Options{URL: base + "/presence/stream?user_id=" + viewer, Users: []string{"1"}})
			w.until("a snapshot for "+viewer, 10*time.Second, func() bool { return len(v.messages(watch.Snapshot)) > 0 })
			return v
		}
		eight, nine := watching(p.base, "8"), watching(p.base, "9")
		w.deny(p.base, "add", "8")
		w.until("hidden from the denied viewer", 10*time.Second, func() bool { return w.seenBy(p.base, "8") == "null" })
		w.until("cleared", 10*time.Second, func() bool { return len(eight.changes()) > 0 })
		if n := len(nine.changes()); n != 0 {
			w.Errorf("the other viewer got %d messages because of the denial", n)
		}
		turns := func(base string, from int) {
			w.Helper()
			for i := from; i < from+6; i++ {
				state, seen := []string{"away", ""}[i%2], []string{"away", "online"}[i%2]
				w.override(base, 1, state, 0)
				if i == from+3 {
					w.redis.Server().FlushAll()
				}
				for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(200 * time.Millisecond) {
					if state := w.seenBy(base, "8"); state != "null" {
						w.Fatalf("turn %d: the denied viewer reads %s", i, state)
					}
				}
				w.until(fmt.Sprintf("turn %d for the other viewer", i), time.Minute, func() bool { return w.seenBy(base, "9") == seen })
			}
		}
		turns(p.base, 0)
		if heard := eight.changes(); len(heard) != 1 || heard[0].State != nil || len(eight.messages(watch.Resync)) != 0 {
			w.Errorf("the denied viewer heard %+v, %+v", heard, eight.messages(watch.Resync))
		}
		if changes := nine.changes(); len(changes) < 6 {
			w.Errorf("the other viewer heard only %+v", changes)
		}
		eight.stop()
		nine.stop()
		p.stop()
		q := w.start("all", "two")
		defer w.connect(q.base, 1, 7, "desktop").lose()
		again := watching(q.base, "8")
		turns(q.base, 6)
		for _, u := range append(again.changes(), again.messages(watch.Snapshot)[0].Users...) {
			if u.State != nil {
				w.Errorf("after the restart the denied viewer heard %+v", u)
			}
		}
		w.deny(q.base, "remove", "8")
		w.until("online for the viewer who is allowed again", 10*time.Second, func() bool { return w.seenBy(q.base, "8") == "online" })
		w.until("heard by that viewer", 10*time.Second, func() bool {
			heard := again.changes()
			return len(heard) > 0 && word(heard[len(heard)-1].State) == "online"
		})
		w.likeTheOracle()
		q.stop()
	})
}

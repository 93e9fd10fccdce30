package virtual

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// shownOf are the transitions of a user that a viewer receives: all while the user
// is visible, and the hiding itself.
func shownOf(transitions []schemas.Transition) []schemas.Transition {
	var shown []schemas.Transition
	for _, t := range transitions {
		if t.Visibility == schemas.Everyone || t.Cause == schemas.VisibilityChange {
			shown = append(shown, t)
		}
	}
	return shown
}

// heardSince checks that a viewer who subscribed at any time was told, after its
// snapshot, of just what is newer than that, once and in order.
func (w *world) heardSince(v *viewer, user schemas.UserID, transitions []schemas.Transition) {
	w.Helper()
	var first schemas.User
	for _, p := range v.messages(watch.Snapshot)[0].Users {
		if p.UserID == user.String() {
			first = p
		}
	}
	shown := shownOf(transitions)
	for len(shown) > 0 && shown[0].Version.String() != first.Version && !newerThan(shown[0].Version, first.Version) {
		shown = shown[1:]
	}
	if len(shown) > 0 && shown[0].Version.String() == first.Version {
		shown = shown[1:]
	}
	w.streamed(v, user, shown)
}

func newerThan(version schemas.Version, than string) bool {
	a, b := version.String(), than
	return len(a) > len(b) || len(a) == len(b) && a > b
}

func TestScenario29WhoSubscribesWhileAUserChangesAThousandTimesMissesNothingAndHearsNothingOlder(t *testing.T) {
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		w.config.Policy.FlapBurst = 0 // every change is published
		p := w.start("all", "one")
		random := rand.New(rand.NewPCG(1, 29))
		var changing sync.WaitGroup
		changing.Go(func() {
			for i := range 1000 {
				w.mustPost(p.base, gateway{}, row{User: 1, Device: 7, Kind: "mobile", Bye: i%2 == 1})
				time.Sleep(time.Duration(20+random.IntN(40)) * time.Millisecond)
			}
		})
		viewers := []*viewer{w.watch(p.base, 1)}
		for range 25 {
			time.Sleep(time.Duration(rand.N(int64(1500 * time.Millisecond))))
			viewers = append(viewers, w.watch(p.base, 1, 2))
		}
		changing.Wait()
		time.Sleep(time.Second)
		users := byUser(w.likeTheOracle())
		if n := len(users[1]); n != 1000 {
			w.Errorf("user 1 has changed %d times", n)
		}
		batch := w.batch(p.base, "1")["1"]
		for _, v := range viewers {
			w.heardSince(v, 1, users[1])
			all := v.changes()
			if last := all[len(all)-1]; word(last.State) != word(batch) {
				w.Errorf("the last a viewer heard is %s, the batch says %s", word(last.State), word(batch))
			}
			v.stop()
		}
		w.readsAre(p.base, users)
		p.stop()
	})
}

func TestScenario30TwiceTheSameOneselfTheUnknownAndOneTooMany(t *testing.T) {
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		s := w.connect(p.base, 1, 7, "web")
		hear := func(want int, types ...string) []watch.Message {
			w.Helper()
			time.Sleep(2 * time.Second) // everything has come, and nothing more
			if got := s.messages(); len(got) != want {
				w.Fatalf("%d messages, want %d: %.300q", len(got), want, got)
			}
			var all []watch.Message
			for i, text := range s.messages() {
				var m watch.Message
				if err := json.Unmarshal([]byte(text), &m); err != nil || i >= len(types) || m.Type != types[i] {
					w.Fatalf("message %d is %.200s (%v), want %v", i, text, err, types)
				}
				all = append(all, m)
			}
			return all
		}
		time.Sleep(time.Second)
		ids := func(from, n int) string {
			list := make([]string, n)
			for i := range list {
				list[i] = fmt.Sprint(from + i)
			}
			return `{"type":"subscribe","user_ids":[` + strings.Join(list, ",") + `]}`
		}
		s.say(ids(1, 1)) // itself
		s.say(ids(1, 1)) // again
		s.say(`{"type":"subscribe","user_ids":["77","77"]}`)
		s.say(ids(1001, 501))
		s.say(ids(1001, 499)) // with the two above one too many
		s.say(ids(1001, 498))
		all := hear(7, watch.Hello, watch.Snapshot, watch.Snapshot, watch.Snapshot, watch.Error, watch.Error, watch.Snapshot)
		if me := all[1].Users[0]; word(me.State) != "online" || len(all[1].Users) != 1 {
			w.Errorf("itself is %+v", me)
		}
		if unknown := all[3].Users; len(unknown) != 1 || word(unknown[0].State) != "offline" || unknown[0].Version != "0" {
			w.Errorf("the unknown user is %+v", unknown)
		}
		for _, m := range all[4:6] {
			if m.Problem.Code != "too_many_subscriptions" || m.Problem.Field != "user_ids" {
				w.Errorf("one too many: %+v", m.Problem)
			}
		}
		if len(all[6].Users) != 498 {
			w.Errorf("%d users in the last snapshot", len(all[6].Users))
		}
		// The rest stays: each change is delivered once.
		w.mustPost(p.base, gateway{}, row{User: 77, Device: 1, Kind: "web"}, row{User: 1498, Device: 1, Kind: "web"})
		s.say(`{"type":"activity","idle_ms":0}`)
		hear(9, watch.Hello, watch.Snapshot, watch.Snapshot, watch.Snapshot, watch.Error, watch.Error, watch.Snapshot,
			watch.Change, watch.Change)
		s.leave()
		p.stop()
	})
}

func TestScenario31ASlowViewerHearsTheNewestAndHowManyWereLeftOut(t *testing.T) {
	const users, flips = 50, 160 // more than a connection's buffers hold
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		w.config.Policy.FlapBurst = 0 // every change is published
		p := w.start("all", "one", func(c *app.Config) { c.MaxSubscriptions = users })
		//nolint:bodyclose // Dial has read the body; it needs no closing, it says.
		conn, _, err := websocket.Dial(context.Background(), strings.Replace(p.base, "http", "ws", 1)+"/presence/stream", &websocket.DialOptions{HTTPClient: w.http})
		must.Do(w, err)
		defer conn.CloseNow()
		var list []string
		for i := range users {
			list = append(list, fmt.Sprint(i+1))
		}
		must.Do(w, conn.Write(context.Background(), websocket.MessageText, []byte(`{"type":"subscribe","user_ids":[`+strings.Join(list, ",")+`]}`)))
		healthy := w.watch(p.base, 1)
		for i := range flips { // and the viewer reads nothing
			rows := make([]row, users)
			for n := range rows {
				rows[n] = row{User: schemas.UserID(n + 1), Device: 7, Kind: "web", Bye: i%2 == 1}
			}
			w.mustPost(p.base, gateway{}, rows...)
			time.Sleep(50 * time.Millisecond)
		}
		all := byUser(w.likeTheOracle())
		changes, left, last := 0, 0, map[string]string{}
		for len(last) < users || changes+left < users*flips {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				w.Fatalf("after %d changes and %d left out: %v", changes, left, err)
			}
			var m watch.Message
			must.Do(w, json.Unmarshal(text, &m))
			switch m.Type {
			case watch.Change:
				changes++
				last[m.User.UserID] = m.User.Version
			case watch.Collapsed:
				left += m.Count
			}
		}
		if left == 0 || changes+left != users*flips {
			w.Errorf("%d changes, %d left out, of %d", changes, left, users*flips)
		}
		for id, changes := range all {
			if version, want := last[id.String()], changes[flips-1].Version.String(); version != want {
				w.Errorf("the last heard of user %d is %s, want %s", id, version, want)
			}
		}
		w.streamed(healthy, 1, all[1])
		healthy.stop()
		p.stop()
	})
}

func TestScenario36AUserWhoBeatsAndIsHiddenInOneInstantIsShownAsTheLogHasIt(t *testing.T) {
	const users, rounds = 20, 6
	inWorld(t, size{partitions: 4, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		var ids []schemas.UserID
		for i := range users {
			ids = append(ids, schemas.UserID(i+1))
		}
		v := w.watch(p.base, ids...)
		random := rand.New(rand.NewPCG(36, 36))
		for round := range rounds {
			var together sync.WaitGroup
			for _, id := range ids {
				acts := []func(){
					func() { w.show(p.base, id, []string{"nobody", "everyone"}[round%2]) },
					func() { w.mustPost(p.base, gateway{}, row{User: id, Device: 7, Kind: "web", Bye: round%3 == 2}) },
					func() { w.mustPost(p.base, gateway{}, row{User: id, Device: 8, Kind: "mobile", Bye: round%2 == 1}) },
				}
				random.Shuffle(len(acts), func(i, k int) { acts[i], acts[k] = acts[k], acts[i] })
				for _, act := range acts {
					together.Go(act)
				}
			}
			together.Wait()
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		all := byUser(w.likeTheOracle())
		changed, hidden := 0, 0
		for _, id := range ids {
			w.streamed(v, id, shownOf(all[id]))
			for _, tr := range all[id] {
				if tr.Visibility == schemas.Nobody {
					hidden++
					if tr.Cause == schemas.VisibilityChange {
						changed++
					}
				}
			}
		}
		if changed != users*rounds/2 || hidden <= changed {
			w.Errorf("%d hidings, %d hidden transitions: the test tested little", changed, hidden)
		}
		w.readsAre(p.base, all)
		v.stop()
		p.stop()
		w.storedAre(all)
	})
}

package virtual

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// Row 54: right after Redis was emptied, when a process still remembers how far Redis
// was, and while the store, which answers in its place, has not heard of somebody who
// came a moment ago.
func TestNobodyIsOfflineForSureWhenRedisWasEmptiedAndTheStoreIsBehind(t *testing.T) {
	inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) {
		p := w.start("all", "one", func(c *app.Config) { c.Lastseen.SinkEvery = time.Minute })
		// After the first, the sink waits a minute before it writes the others.
		beats := func(user schemas.UserID) {
			w.mustPost(p.door, gateway{}, row{User: user, Device: 7, Kind: "mobile"})
			w.until("the user is online", 10*time.Second, func() bool {
				got := w.user(p.door, user)
				return word(got.State) == "online" && got.StaleSince == 0
			})
		}
		beats(1)
		for _, door := range []struct {
			name  string
			user  schemas.UserID
			state func(user schemas.UserID) (state string, stale bool)
		}{
			{"GET /presence/{user_id}", 2, func(user schemas.UserID) (string, bool) {
				got := w.user(p.door, user)
				return word(got.State), got.StaleSince != 0
			}},
			{"GET /presence/batch", 3, func(user schemas.UserID) (string, bool) { return w.batchState(p.door, user) }},
			{"the snapshot of the stream", 4, func(user schemas.UserID) (string, bool) {
				v := w.watch(p.door, user)
				defer v.stop()
				got := v.messages(watch.Snapshot)[0].Users[0]
				return word(got.State), got.StaleSince != 0
			}},
		} {
			beats(door.user)
			w.user(p.door, 1) // now the process knows how far Redis is
			w.redis.Server().FlushAll()
			if state, stale := door.state(door.user); state != "online" && !stale {
				w.Errorf("%s says for sure that user %d, who is here, is %s", door.name, door.user, state)
			} else if state == "online" && !stale {
				w.Errorf("%s knows of user %d for sure: the test shows nothing", door.name, door.user)
			}
			w.until("Redis is rebuilt", 10*time.Second, func() bool {
				got := w.user(p.door, door.user)
				return word(got.State) == "online" && got.StaleSince == 0
			})
		}
	})
}

// batchState asks for the state of one user by the batch, and whether it may be out of date.
func (w *world) batchState(door string, user schemas.UserID) (state string, stale bool) {
	w.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, door+"/presence/batch?user_ids="+user.String(), nil)
	if err != nil {
		w.Fatal(err)
	}
	answer, err := w.http.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	states := map[string]*string{}
	if err := json.NewDecoder(answer.Body).Decode(&states); err != nil {
		w.Fatal(err)
	}
	return word(states[user.String()]), answer.Header.Get("Stale-Since") != ""
}

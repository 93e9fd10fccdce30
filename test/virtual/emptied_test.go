package virtual

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/testkit/must"
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
			w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile"})
			w.until("the user is online", 10*time.Second, func() bool {
				got := w.user(p.base, user)
				return word(got.State) == "online" && got.StaleSince == 0
			})
		}
		beats(1)
		for _, endpoint := range []struct {
			name  string
			user  schemas.UserID
			state func(user schemas.UserID) (state string, stale bool)
		}{
			{"GET /presence/{user_id}", 2, func(user schemas.UserID) (string, bool) {
				got := w.user(p.base, user)
				return word(got.State), got.StaleSince != 0
			}},
			{"GET /presence/batch", 3, func(user schemas.UserID) (string, bool) { return w.batchState(p.base, user) }},
			{"the snapshot of the stream", 4, func(user schemas.UserID) (string, bool) {
				v := w.watch(p.base, user)
				defer v.stop()
				got := v.messages(watch.Snapshot)[0].Users[0]
				return word(got.State), got.StaleSince != 0
			}},
		} {
			beats(endpoint.user)
			w.user(p.base, 1) // now the process knows how far Redis is
			w.redis.Server().FlushAll()
			if state, stale := endpoint.state(endpoint.user); state != "online" && !stale {
				w.Errorf("%s says for sure that user %d, who is here, is %s", endpoint.name, endpoint.user, state)
			} else if state == "online" && !stale {
				w.Errorf("%s knows of user %d for sure: the test shows nothing", endpoint.name, endpoint.user)
			}
			w.until("Redis is rebuilt", 10*time.Second, func() bool {
				got := w.user(p.base, endpoint.user)
				return word(got.State) == "online" && got.StaleSince == 0
			})
		}
	})
}

// batchState asks for the state of one user by the batch, and whether it may be out of date.
func (w *world) batchState(base string, user schemas.UserID) (state string, stale bool) {
	w.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+"/presence/batch?user_ids="+user.String(), nil)
	must.Do(w, err)
	answer := must.Get(w.http.Do(request))(w)
	defer answer.Body.Close()
	states := map[string]*string{}
	must.Do(w, json.NewDecoder(answer.Body).Decode(&states))
	return word(states[user.String()]), answer.Header.Get("Stale-Since") != ""
}

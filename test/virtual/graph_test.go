package virtual

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheGraphIsWhatItsTopicSaysAfterKillsAndStops(t *testing.T) {
	inBothWorlds(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		store := openGraph(w)
		start := func() (*process, *wire) {
			return w.startOn("fanout", func(config *app.Config) { config.GraphTopic = true })
		}
		fanout, wire := start()
		random := rand.New(rand.NewPCG(1, 2))
		follows, garbage := map[graph.Edge]bool{}, 0
		for round := range 12 {
			var outs []schemas.Outgoing
			for range 200 {
				user, follower := 1+schemas.UserID(random.IntN(5)), 10+schemas.UserID(random.IntN(8))
				f := schemas.Follow{User: w.id(user), Follower: w.id(follower), Removed: random.IntN(2) == 0}
				if !f.Removed {
					f.Names = [2]schemas.Name{w.name(user), w.name(follower)}
				}
				follows[graph.Edge{User: f.User, Follower: f.Follower}] = !f.Removed
				partition := int32(follower % 2) // the same for all records of an edge
				outs = append(outs, schemas.Outgoing{Topic: schemas.Graph, Partition: partition, Key: f.Key(), Value: f.Encode()})
			}
			outs = append(outs, schemas.Outgoing{Topic: schemas.Graph, Key: []byte("1,2"), Value: []byte("?")})
			garbage++
			w.write(outs...)
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			switch round % 4 {
			case 1:
				fanout.stop()
				fanout, wire = start()
			case 3:
				fanout.kill(wire)
				fanout, wire = start()
			}
		}
		w.until("the graph is that of the topic", time.Minute, func() bool {
			for e, want := range follows {
				if got, err := store.Followers(w.Context(), e.User, []schemas.UserID{e.Follower}); err != nil || got[0] != want {
					return false
				}
			}
			return true
		})
		for e := range follows {
			names, err := store.Names(w.Context(), []schemas.UserID{e.User, e.Follower})
			for id, name := range names {
				if !clusterOf(w.config).Users.Is(id, name) {
					w.Errorf("user %d is called %s", id, name)
				}
			}
			if want := 2 * len(w.name(1).Text); err != nil || len(names) != want {
				w.Errorf("%d of the users of an edge have a name, want %d (%v)", len(names), want, err)
			}
		}
		w.until("every unreadable record is a dead letter", time.Minute, func() bool { return w.deadLetters(schemas.Graph) >= garbage })
	})
}

// openGraph makes the graph of all processes, with some edges.
func openGraph(w *world, edges ...graph.Edge) *graph.Store {
	w.Helper()
	w.config.Graph = app.Store{SQLite: filepath.Join(w.TempDir(), app.GraphFile)}
	store, err := sqlitegraph.Open(w.Context(), w.config.Graph.SQLite)
	must.Do(w, err)
	w.ends = append(w.ends, store.Close)
	_, err = store.Add(w.Context(), edges)
	must.Do(w, err)
	return store
}

// deadLetters counts the different records of a topic that are dead letters.
func (w *world) deadLetters(of schemas.Topic) int {
	w.Helper()
	origins := map[string]bool{}
	w.read(schemas.DeadLetter, func(r *schemas.Record) error {
		if string(r.Header("stillhere-origin-topic")) == of.Name(schemas.DefaultPrefix) {
			origins[string(r.Header("stillhere-origin-partition"))+" "+string(r.Header("stillhere-origin-offset"))] = true
		}
		return nil
	})
	return len(origins)
}

func TestFriendsMadeOverHTTPReceiveDeliveriesUntilTheyAreNoMore(t *testing.T) {
	for name, many := range map[string]int{"of a user with few": 10_000, "of a celebrity": 1} {
		t.Run(name, func(t *testing.T) {
			inBothWorlds(t, size{partitions: 1, tick: time.Second}, func(w *world) {
				openGraph(w)
				w.config.Expand.Mode, w.config.Expand.Everyone, w.config.Expand.HighFollower = expand.All, true, many
				p := w.start("all", "one")
				delivered := w.logChannel(false)
				ask := func(method, path, body string, want int) {
					t.Helper()
					if status, answer := w.ask(method, p.base+path, json.RawMessage(body)); status != want {
						t.Errorf("%s %s: %d %s", method, path, status, answer)
					}
				}
				beat := row{User: 1, Device: 7, Kind: "mobile"}
				bye := beat
				bye.Bye = true
				ask("PUT", "/presence/1/followers/2", "null", 204)
				ask("POST", "/presence/followers", `{"add":[{"user_id":"3","follower_id":"1"},{"user_id":"1","follower_id":"4"}],"mutual":true}`, 200)
				w.mustPost(p.base, gateway{}, beat)
				w.until("three friends receive it", time.Minute, func() bool { return recipients(delivered.of(1)) == 3 })
				time.Sleep(time.Second) // longer than the graph's changes take to be seen
				ask("DELETE", "/presence/1/followers/2", "null", 204)
				ask("POST", "/presence/followers", `{"remove":[{"user_id":"4","follower_id":"1"}],"mutual":true}`, 200)
				time.Sleep(time.Second)
				w.mustPost(p.base, gateway{}, bye)
				w.until("one friend receives it", time.Minute, func() bool { return len(delivered.of(1)) == 2 })
				if n := recipients(delivered.of(1)); n != 4 {
					t.Errorf("%d recipients in all, want 3 of the first change and 1 of the second: %+v", n, delivered.of(1))
				}
				delivered.stop()
				p.stop()
			})
		})
	}
}

func recipients(messages []schemas.NoticeMessage) (n int) {
	for _, m := range messages {
		n += len(m.Recipients)
	}
	return n
}

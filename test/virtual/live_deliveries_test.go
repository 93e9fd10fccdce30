package virtual

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
)

// User 2 follows user 1 and watches nobody.
func TestAFollowersSocketReceivesDeliveriesWithoutAChannelProcess(t *testing.T) {
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		w.config.Graph = app.Store{SQLite: filepath.Join(filepath.Dir(w.config.Store.SQLite), app.GraphFile)}
		w.config.Expand.Mode = expand.All
		g, err := sqlitegraph.Open(w.Context(), w.config.Graph.SQLite)
		must.Do(w, err)
		if _, err := g.Add(w.Context(), []graph.Edge{{User: 1, Follower: 2}}); err != nil {
			w.Fatal(err)
		}
		g.Close()
		p := w.start("all", "one")
		defer p.stop()
		v := w.receive(p.base + "/presence/stream?user_id=2")
		defer v.stop()
		s := w.connectAs(p.base, "user_id=2&device_id=9&device_kind=web&deliveries=true")
		defer s.leave()
		other := w.connectAs(p.base, "user_id=2&device_id=8&device_kind=mobile")
		defer other.leave()
		time.Sleep(5 * time.Second) // user 2 is in the online set
		w.mustPost(p.base, gateway{}, row{User: 1, Device: 7, Kind: "mobile"})
		time.Sleep(5 * time.Second)
		for socket, want := range map[*socket]int{s: 1, other: 0} {
			if received := socket.heardOf(`{"type":"delivery","user":{"user_id":"1","state":"online"`); received != want {
				w.Errorf("%d deliveries in %q, want %d", received, socket.messages(), want)
			}
		}
		if s.heardOf(`{"type":"deliveries","enabled":true}`) != 1 {
			w.Errorf("the socket's request is not confirmed: %q", s.messages())
		}
		if got := v.messages(watch.Delivery); len(got) != 1 || got[0].User.UserID != "1" || word(got[0].User.State) != "online" {
			w.Errorf("received %v, want one delivery of user 1, online", got)
		}
	})
}

// receive asks for deliveries and watches nobody.
func (w *world) receive(url string) *viewer {
	ctx, cancel := context.WithCancel(context.Background())
	v := &viewer{cancel: cancel}
	v.reading.Go(func() {
		for m, err := range watch.Messages(ctx, watch.Options{URL: url, Deliveries: true, Client: w.http}) {
			if err != nil {
				w.Errorf("receiving deliveries: %v", err)
				return
			}
			v.mu.Lock()
			v.heard = append(v.heard, m)
			v.mu.Unlock()
		}
	})
	return v
}

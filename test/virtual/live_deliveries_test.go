package virtual

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/watch"
)

// User 2 follows user 1 and watches nobody.
func TestAFollowersSocketReceivesDeliveriesWithoutAChannelProcess(t *testing.T) {
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		openGraph(w, graph.Edge{User: 1, Follower: 2})
		w.config.Expand.Mode = expand.All
		p := w.start("all", "one")
		v := w.listen(watch.Options{URL: p.base + "/presence/stream?user_id=2", Deliveries: true})
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

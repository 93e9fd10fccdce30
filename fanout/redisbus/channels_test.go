package redisbus

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// The server in this test executes commands in order and answers each; whether a
// channel is live there is what the waiters must be right about.
func TestWaitersAreReleasedExactlyWhenTheServerHasTheirChannels(t *testing.T) {
	t.Parallel()
	type command struct {
		id  schemas.UserID
		sub bool
	}
	rapid.Check(t, func(t *rapid.T) {
		s := newChannels(fanout.NewMetrics(nil))
		wanted := map[schemas.UserID]int{}
		var pipe []command                      // sent, not executed
		subscribed := map[schemas.UserID]bool{} // at the server
		waiting := map[schemas.UserID][]*waiter{}
		connected := false
		sendAll := func() {
			more, fewer, _ := s.next()
			for _, id := range fewer {
				pipe = append(pipe, command{id, false})
			}
			for _, id := range more {
				pipe = append(pipe, command{id, true})
			}
		}
		execute := func() {
			c := pipe[0]
			pipe = pipe[1:]
			subscribed[c.id] = c.sub
			if c.sub {
				s.confirmed(c.id)
			} else if s.lostByServer(c.id) {
				t.Fatalf("an unsubscribe of ours of %d looks like the server's", c.id)
			}
		}
		check := func() {
			for id, ws := range waiting {
				for _, w := range ws {
					select {
					case <-w.done:
					default:
						continue
					}
					if w.err != nil {
						continue
					}
					// It stays so: every unsubscribe before this has been executed.
					if !subscribed[id] && wanted[id] > 0 {
						t.Fatalf("the waiter for %d was told too early", id)
					}
				}
			}
		}
		id := rapid.Custom(func(t *rapid.T) schemas.UserID { return schemas.UserID(rapid.IntRange(1, 3).Draw(t, "id")) })
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { check() },
			"want": func(t *rapid.T) {
				id := id.Draw(t, "user")
				wanted[id]++
				waiting[id] = append(waiting[id], s.want([]schemas.UserID{id}))
			},
			"unwant": func(t *rapid.T) {
				id := id.Draw(t, "user")
				if wanted[id] > 0 {
					if wanted[id]--; wanted[id] == 0 {
						waiting[id] = nil
					}
					s.unwant([]schemas.UserID{id})
				}
			},
			"send": func(t *rapid.T) {
				if connected {
					sendAll()
				}
			},
			"execute": func(t *rapid.T) {
				if len(pipe) > 0 {
					execute()
				}
			},
			"connect": func(t *rapid.T) {
				if !connected {
					connected = true
					s.begin()
				}
			},
			"lose": func(t *rapid.T) {
				if connected {
					connected = false
					pipe = nil
					clear(subscribed)
					clear(waiting)
					s.lost()
				}
			},
		})
		if !connected {
			s.begin()
		}
		sendAll()
		for len(pipe) > 0 {
			execute()
		}
		check()
		for id, n := range wanted {
			if subscribed[id] != (n > 0) {
				t.Fatalf("in the end %d is wanted by %d and subscribed: %v", id, n, subscribed[id])
			}
			for _, w := range waiting[id] {
				select {
				case <-w.done:
				default:
					t.Fatalf("a waiter for %d waits for ever", id)
				}
			}
			if n == 0 && s.of[id] != nil {
				t.Fatalf("%d is remembered for nobody", id)
			}
		}
		if s.backlog != 0 {
			t.Fatalf("backlog %d", s.backlog)
		}
	})
}

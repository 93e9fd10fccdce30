package virtual

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/policy"
)

func TestSocketsHearOfAnotherHeartbeatIntervalWithinAMinuteWithoutARestart(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		w.start("detector", "detector")
		time.Sleep(5 * time.Second) // the policy is in force
		before := w.config.Policy
		in := w.start("ingest", "ingest", func(c *app.Config) { c.PolicyAsked = policy.Change{HeartbeatInterval: &before.HeartbeatInterval} })
		open := w.connect(in.door, 1, 7, "web")
		hellos := func(s *socket) (all []string) {
			for _, m := range s.messages() {
				if strings.Contains(m, `"hello"`) {
					all = append(all, m)
				}
			}
			return all
		}
		beat := func(seconds int, sockets ...*socket) {
			for range seconds / 5 {
				time.Sleep(5 * time.Second)
				for _, s := range sockets {
					s.ping()
				}
			}
		}
		differs := func(want string) {
			w.Helper()
			if _, text := w.ask(http.MethodGet, in.admin+"/metrics", nil); !strings.Contains(string(text), "\nstillhere_policy_differs "+want+"\n") {
				w.Errorf("stillhere_policy_differs is not %s", want)
			}
		}
		beat(60, open)
		if got := hellos(open); len(got) != 1 || !strings.Contains(got[0], `"heartbeat_interval_ms":15000`) {
			w.Fatalf("before the change the socket hears %q", got)
		}
		differs("0")

		interval := 5 * time.Second
		asked := policy.Change{HeartbeatInterval: &interval}
		if err := app.SetPolicy(context.Background(), w.config.Kafka, asked.To(before), w.log); err != nil {
			w.Fatal(err)
		}
		beat(60, open)
		if got := hellos(open); len(got) != 2 || !strings.Contains(got[1], `"heartbeat_interval_ms":5000`) {
			w.Errorf("a minute after the change the socket has heard %q", got)
		}
		differs("1") // its flags ask for the interval before
		next := w.connect(in.door, 2, 7, "web")
		beat(30, open, next)
		if got := hellos(next); len(got) != 1 || !strings.Contains(got[0], `"heartbeat_interval_ms":5000`) {
			w.Errorf("a socket of after the change hears %q", got)
		}

		if err := app.SetPolicy(context.Background(), w.config.Kafka, before, w.log); err != nil {
			w.Fatal(err)
		}
		beat(60, open, next)
		if got := hellos(next); len(got) != 2 || !strings.Contains(got[1], `"heartbeat_interval_ms":15000`) {
			w.Errorf("a minute after it was changed back the socket has heard %q", got)
		}
		differs("0")
		open.leave()
		next.leave()
	})
}

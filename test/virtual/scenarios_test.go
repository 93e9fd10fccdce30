package virtual

import (
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestScenario5SilenceIsAwayAndThenOfflineAtTheExactInstants(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		p := w.start("all", "one")
		viewer := w.watch(p.base, 1)
		seen := now()
		w.mustPost(p.base, gateway{}, row{User: 1, Device: 7, Kind: "mobile"})
		// A limit waits for allowed_lateness and the next tick before it shows.
		const shows = 250 + 250 + 50
		away, offline := seen+45*second, seen+5*minute
		for _, look := range []struct {
			at   schemas.Millis
			want string
		}{{seen + 50, "online"}, {away - 1, "online"}, {away + shows, "away"}, {offline - 1, "away"}, {offline + shows, "offline"}} {
			w.sleepTo(look.at)
			if got := w.batch(p.base, "1")["1"]; word(got) != look.want {
				w.Errorf("at %s the batch says %s, want %s", clock(look.at), word(got), look.want)
			}
		}
		users := byUser(w.likeTheOracle())
		w.readsAre(p.base, users)
		w.expected(&person{user: 1, reports: []report{{at: seen}}}, users[1])
		w.only(users, 1, schemas.Online, schemas.Away, schemas.Offline)
		w.streamed(viewer, 1, users[1])
		viewer.stop()
		p.stop()
		w.storedAre(users)
	})
}

func TestScenario17ConnectionsThatDropAndComeBackAreOneOnline(t *testing.T) {
	for name, devices := range map[string][]schemas.DeviceID{"the same device": {1, 1, 1}, "a new device each time": {1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, size{partitions: 2}, func(w *world) {
				p := w.start("all", "one")
				from := now()
				var s *socket
				for i, after := range []schemas.Millis{0, 3 * second, 8 * second} {
					w.sleepTo(from + after)
					s = w.connect(p.base, 1, devices[i], "mobile")
					if i < 2 {
						w.sleepTo(from + after + second)
						s.lose()
					}
				}
				for range 12 {
					time.Sleep(15 * time.Second)
					s.ping()
				}
				users := byUser(w.likeTheOracle())
				w.only(users, 1, schemas.Online)
				if users[1][0].At != from {
					w.Errorf("online at %s, connected at %s", clock(users[1][0].At), clock(from))
				}
				w.readsAre(p.base, users)
				s.lose()
				p.stop()
				w.storedAre(users)
			})
		})
	}
}

func TestScenarios34And35AHiddenUserIsClearedOnceAndThenUnseenUntilItIsVisible(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2}, func(w *world) {
		p := w.start("all", "one")
		viewer := w.watch(p.base, 1)
		from := now()
		someone := &person{user: 1, device: 7, kind: "web", reports: []report{
			{at: from}, {at: from + 15*second}, // hidden from 20 s on
			{at: from + 30*second}, {at: from + 40*second, bye: true}, {at: from + minute}, {at: from + 75*second},
			{at: from + 8*minute}, // shows again at 8:05
		}}
		var sending sync.WaitGroup
		sending.Go(func() { someone.sendAll(w, p.base) })
		w.sleepTo(from + 20*second)
		w.show(p.base, 1, "nobody")
		time.Sleep(100 * time.Millisecond)
		if got := viewer.changes(); len(got) != 2 || got[1].State != nil || got[1].LastSeenAt != 0 || got[1].Devices != nil {
			w.Errorf("when the user is hidden the viewer has received %+v", got)
		}
		for at := from + 21*second; at < from+8*minute; at += second {
			w.sleepTo(at)
			if got := w.user(p.base, 1); got.State != nil || got.LastSeenAt != 0 || got.LastActiveAt != 0 || got.Devices != nil || got.Since != 0 {
				w.Errorf("of a hidden user the API says %+v", got)
			}
		}
		if got := viewer.changes(); len(got) != 2 {
			w.Errorf("while the user is hidden the viewer receives %+v", got[2:])
		}
		w.sleepTo(from + 8*minute + 5*second)
		w.show(p.base, 1, "everyone")
		time.Sleep(100 * time.Millisecond)
		if got := viewer.changes(); len(got) != 3 || word(got[2].State) != "online" || got[2].Since < from+8*minute+5*second ||
			got[2].LastSeenAt != got[2].Since || got[2].LastActiveAt != got[2].Since {
			w.Errorf("when the user shows again the viewer has heard %+v", got)
		}
		sending.Wait()
		users := byUser(w.likeTheOracle())
		hidden := 0
		for _, tr := range users[1] {
			if tr.Visibility == schemas.Nobody {
				hidden++
			}
		}
		if hidden != 6 { // the hiding, bye, first beat, away, offline, first beat
			w.Errorf("%d transitions were hidden: %v", hidden, changesOf(users[1]))
		}
		w.readsAre(p.base, users)
		viewer.stop()
		p.stop()
		w.storedAre(users)
	})
}

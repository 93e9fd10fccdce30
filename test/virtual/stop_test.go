package virtual

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// What was said before a graceful stop is in the log, in the store and in the
// next life of the process; nobody changes because of it.
func TestAGracefulStopLosesNothing(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		said := &logged{Handler: w.log.Handler()}
		w.log = slog.New(said)
		p := w.start("all", "one")
		from := now() + second - now()%second
		var sockets []*socket
		for user := schemas.UserID(1); user <= 10; user++ {
			sockets = append(sockets, w.connect(p.base, user, 1, "web"))
		}
		for lives := range schemas.Millis(5) {
			stop := from + lives*30*second + 10*second + lives*137 // at other phases of flushes and ticks
			w.sleepTo(stop - 1)
			for _, s := range sockets {
				s.say(`{"type":"activity","idle_ms":60000}`) // which waits for the next flush
			}
			w.mustPost(p.base, gateway{}, row{User: 100 + schemas.UserID(lives), Device: 1, Kind: "mobile"})
			w.sleepTo(stop)
			var leaving sync.WaitGroup
			for _, s := range sockets {
				leaving.Go(func() { <-s.closed; s.lose() })
			}
			p.stop()
			leaving.Wait()

			w.tap.catchUp()
			for user := schemas.UserID(1); user <= 10; user++ {
				if told := w.lastBeat(user); told < stop-1 {
					w.Errorf("life %d: what user %d said at %s is not in the log, but what was said at %s", lives, user, clock(stop-1), clock(told))
				}
			}
			users := byUser(w.tap.committed())
			w.storedAre(users)
			w.only(users, 100+schemas.UserID(lives), schemas.Online)

			p = w.start("all", "one")
			for i, s := range sockets {
				time.Sleep(min(s.reconnectAfter(), time.Second))
				sockets[i] = w.connect(p.base, schemas.UserID(i+1), 1, "web")
			}
		}
		users := byUser(w.likeTheOracle())
		w.onlyOnline(users, 1, 10)
		w.readsAre(p.base, users)
		for _, s := range sockets {
			s.lose()
		}
		p.stop()
		restores := regexp.MustCompile(`(?m)^restored .* run_from=(\d+) next=(\d+)`).FindAllStringSubmatch(strings.Join(said.lines, "\n"), -1)
		for _, r := range restores {
			if r[1] != r[2] {
				w.Errorf("a start after a graceful stop reads heartbeats again: %s", r[0])
			}
		}
		if len(restores) != 2*6 {
			w.Errorf("%d partitions were restored", len(restores))
		}
		w.storedAre(users)
	})
}

// lastBeat is the instant of a user's newest beat in the log.
func (w *world) lastBeat(user schemas.UserID) schemas.Millis {
	w.Helper()
	var last schemas.Millis
	for _, r := range w.tap.records[schemas.PartitionOf(user, int32(len(w.tap.records)))] {
		var f schemas.Frame
		must.Do(w, f.Decode(r.Value))
		rows := f.Beats()
		for b := (schemas.Beat{}); rows.Next(&b); {
			if b.User == user {
				last = max(last, r.Time-b.Age)
			}
		}
	}
	return last
}

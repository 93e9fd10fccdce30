//go:build synctests

package looptest

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitGaps has somebody beat every 5 ms while the broker takes its time to end a
// transaction, and tells how long it was from one request for that to the next.
func commitGaps(w *world, takes time.Duration) []time.Duration {
	var mu sync.Mutex
	var at []time.Time
	w.answers(kmsg.EndTxn, func(kmsg.Request) kmsg.Response {
		mu.Lock()
		at = append(at, time.Now())
		mu.Unlock()
		if takes > 0 {
			w.kafka.Cluster().SleepControl(func() { time.Sleep(takes) })
		}
		return nil
	})
	w.cfg.TickInterval = time.Hour / 2
	w.cfg.StallTimeout = 3 * time.Hour
	w.joined("a", 1)
	time.Sleep(2 * time.Second)
	// The first fetch after the wait may be answered late; what follows it is measured.
	w.beat(0, "warm")
	w.until("warm", time.Minute, func() bool { return w.counts()["warm"] == 1 })
	time.Sleep(time.Second)
	mu.Lock()
	at = at[:0]
	mu.Unlock()
	const beats = 200
	for range beats {
		w.beat(0, "x")
		time.Sleep(5 * time.Millisecond)
	}
	w.until("all copied", time.Minute, func() bool { return w.counts()["x"] == beats })
	mu.Lock()
	defer mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i].Sub(at[i-1]))
	}
	return gaps
}

func TestCommitsBeginTwiceAsFarApartAsTheyTakeWithinBounds(t *testing.T) {
	for _, c := range []struct{ takes, least time.Duration }{
		{0, 10 * time.Millisecond},
		{8 * time.Millisecond, 16 * time.Millisecond},
		{12 * time.Millisecond, 20 * time.Millisecond},
		{50 * time.Millisecond, 55 * time.Millisecond}, // half the interval after the end
	} {
		t.Run(c.takes.String(), func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				gaps := commitGaps(w, c.takes)
				if len(gaps) < 10 {
					w.Fatalf("only %d commits", len(gaps)+1)
				}
				for _, gap := range gaps[:len(gaps)-1] { // the last may have been the end of it
					if gap < c.least || gap > c.least+6*time.Millisecond {
						w.Errorf("%s from one commit to the next; want %s and at most a beat more: %v", gap, c.least, gaps)
						break
					}
				}
			})
		})
	}
}

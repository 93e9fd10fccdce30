package coalesce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// holding is a queue of a gateway that flushes every second, and says what it sends.
type holding struct {
	*testing.T
	q    *Queue
	now  time.Duration
	away bool // Kafka is
	sent []string
}

func newHolding(t *testing.T) *holding { return &holding{T: t, q: New(rules)} }

func (h *holding) tells(r Report) { add(h.T, h.q, h.now, r) }

func held(r Report) Report {
	r.Held = true
	return r
}

func lost(user schemas.UserID, ago time.Duration) Report {
	return Report{User: user, Device: 7, Lost: true, Ago: ago}
}

// pass lets seconds go by.
func (h *holding) pass(seconds int) {
	for range seconds {
		h.now += time.Second
		h.q.Flush()
		if h.now%(5*time.Second) == 0 {
			h.q.Sweep(h.now)
		}
		if b := h.q.Seal(h.now); b != nil {
			for _, row := range b.Beats {
				if !h.away {
					h.sent = append(h.sent, describe(h.now, &row))
				}
			}
			h.q.Settle(h.now, b, !h.away)
		}
	}
}

// describe says what a row means, and when.
func describe(now time.Duration, row *schemas.Beat) string {
	what := "beat"
	switch {
	case row.Bye:
		what = fmt.Sprint("bye of ", row.User)
	case row.Lost:
		what = "lost"
	case row.Connection != 0 && row.Idle == 0:
		what = fmt.Sprint("open ", row.Connection)
	case row.Connection != 0:
		what = fmt.Sprint("idle ", row.Connection, " for ", int64(row.Idle/1000))
	}
	return fmt.Sprintf("%v: %s", (now-time.Duration(row.Age)*time.Millisecond)/time.Second*time.Second, what)
}

func TestAHeldDeviceTellsWhatChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(h *holding)
		want string
	}{
		"nothing, with beats or without": {func(h *holding) {
			h.tells(held(beat(1)))
			for range 250 {
				h.pass(14)
				h.tells(held(beat(1)))
				h.tells(beat(1))
			}
		}, "0s: open 1, 30m20s: open 1"},
		"idle, which goes on, and active": {func(h *holding) {
			h.tells(held(beat(1)))
			for i := range 20 {
				h.pass(15)
				h.tells(held(idle(1, time.Duration(15*(i+1))*time.Second)))
			}
			h.tells(held(beat(1)))
			h.pass(60)
		}, "0s: open 1, 15s: idle 1 for 15, 5m0s: open 1"},
		"closed, lost and open again": {func(h *holding) {
			h.tells(held(beat(1)))
			h.pass(10)
			h.tells(bye(1))
			h.pass(1)
			h.tells(held(beat(1)))
			h.pass(30)
			h.tells(lost(1, 20*time.Second))
			h.tells(lost(1, 0))
			h.pass(1)
			h.tells(held(beat(1)))
			h.pass(1)
		}, "0s: open 1, 10s: bye of 1, 11s: open 2, 21s: lost, 42s: open 3"},
		"the newest while Kafka is away, as of now; the end as of then": {func(h *holding) {
			h.tells(held(beat(1)))
			h.tells(held(beat(2)))
			h.away = true
			h.pass(200)
			h.tells(lost(2, 0))
			h.pass(100)
			h.away = false
			h.pass(1)
		}, "5m1s: open 1, 3m20s: lost"},
		"everything again after a gap": {func(h *holding) {
			h.tells(held(beat(1)))
			h.tells(beat(2))
			h.pass(23)
			h.q.ReportAgain(h.now)
			h.pass(30)
		}, "0s: open 1, 0s: beat, 23s: open 1"},
		"everything again in half an hour, one after the other": {func(h *holding) {
			h.tells(held(beat(64)))
			h.tells(held(idle(32, 5*time.Minute)))
			h.pass(2400)
		}, "0s: open 1, 0s: idle 2 for 300, 30m5s: open 1, 37m35s: idle 2 for 2555"},
		"the end of what the log says is open, however many come and go in an outage": {func(h *holding) {
			h.tells(held(beat(1)))
			h.pass(1)
			h.away = true
			h.tells(bye(1))
			for user := range schemas.UserID(3 * minAbsent) {
				h.tells(held(beat(user + 2)))
				h.tells(bye(user + 2))
			}
			if _, dropped := h.q.Counts(); dropped == 0 {
				h.Error("nothing was dropped")
			}
			h.away = false
			h.pass(1)
			h.sent = slices.DeleteFunc(h.sent, func(s string) bool { return !strings.HasSuffix(s, " 1") })
		}, "0s: open 1, 1s: bye of 1"},
		"it again with the next beat after an erasure": {func(h *holding) {
			ann, bob := held(beat(1)), held(beat(2))
			ann.Name, bob.Name = &schemas.Name{Text: "ann"}, &schemas.Name{Text: "bob"}
			h.tells(ann)
			h.tells(bob)
			h.pass(10)
			h.q.Erased(h.now, 1)
			for range 10 {
				h.pass(10)
				h.tells(ann)
				h.tells(bob)
			}
		}, "0s: open 1, 0s: open 2, 20s: open 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHolding(t)
			if c.run(h); strings.Join(h.sent, ", ") != c.want {
				t.Errorf("sent\n%s\nwant\n%s", strings.Join(h.sent, ", "), c.want)
			}
		})
	}
}

package virtual

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// hides draws a log of two users who hide and show again while devices come late, idle or not at all.
func hides(t *rapid.T) history.History {
	draw := func(what string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, what) }
	h := history.History{Settings: history.Settings(uint64(draw("settings", 1000))), Partitions: 1}
	for range rapid.IntRange(5, 60).Draw(t, "records") {
		r := history.Record{After: draw("after", 4000)}
		user := schemas.UserID(1 + draw("user", 1))
		switch draw("what", 9) {
		case 0, 1:
			r.Hide = user
		case 2, 3:
			r.Show = user
		case 4:
			r.Tick, r.After = true, 5*r.After
		case 5:
			r.Erase = user
		default:
			row := history.Row{User: user, Device: schemas.DeviceID(1 + draw("device", 1)), Kind: schemas.Web, Bye: draw("bye", 4) == 0}
			if draw("late", 3) == 0 {
				row.Age = draw("age", 5000)
			}
			if draw("touched", 1) == 0 {
				row.Idle = draw("idle", 30_000)
			}
			r.Rows = []history.Row{row}
		}
		h.Records = append(h.Records, r)
	}
	return h
}

// What stream, deliveries and channels say is one of the four below.
func TestNothingThatIsSentNamesATimeBetweenAHideAndItsShow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := hides(t)
		type hidden struct{ from, to schemas.Millis }
		spans, hid := map[schemas.UserID][]hidden{}, map[schemas.UserID]schemas.Millis{}
		for _, tr := range oracle.Run(h.Log()) {
			switch turns := tr.Cause == schemas.VisibilityChange; {
			case tr.Cause == schemas.Erased:
				delete(spans, tr.User)
				delete(hid, tr.User)
			case turns && tr.Visibility == schemas.Nobody:
				hid[tr.User] = tr.At
			case turns:
				spans[tr.User] = append(spans[tr.User], hidden{hid[tr.User], tr.At})
			}
			said := map[string][]schemas.Millis{}
			note := func(of string, c *schemas.Transition) {
				said[of] = []schemas.Millis{c.At, c.LastSeen, c.LastActive}
			}
			if c, ok := fanout.ChangeOf(&tr); ok {
				note("the stream, and a channel of transitions", c.Transition)
				said["the stream"] = []schemas.Millis{c.Since}
			}
			if c, ok := fanout.OfflineChangeOf(&tr); ok {
				note("the stream of hidden users as offline", c.Transition)
			}
			if seen, ok := shown.AsIfOffline(&tr); ok {
				note("a delivery of hidden users as offline", seen)
			}
			if tr.Visibility != schemas.Nobody {
				note("a delivery", shown.Transition(&tr))
			}
			for of, times := range said {
				for _, at := range times {
					for _, s := range spans[tr.User] {
						if at > s.from && at < s.to {
							t.Fatalf("%s says %d, which is between %d and %d: %+v of\n%s", of, at, s.from, s.to, tr, &h)
						}
					}
				}
			}
		}
	})
}

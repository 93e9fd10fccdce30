//go:build synctests

package looptest

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/schemas"
)

func TestHoursPassInSecondsWithSlowTicks(t *testing.T) {
	const hours = 2
	inWorld(t, 2, func(w *world) {
		w.cfg.TickInterval = 5 * time.Second
		w.cfg.SessionTimeout = time.Minute
		w.cfg.RebalanceTimeout = time.Minute
		w.cfg.StallTimeout = time.Minute
		w.cfg.WatermarkInterval = 5 * time.Second
		_, transform := w.member("a")
		k := newKeeper()
		w.follower("f", k, consumer.WatermarksOf("detector", schemas.Heartbeats))
		w.has("ready", transform, 2)
		for range hours * 60 {
			w.beat(0, "x")
			time.Sleep(time.Minute)
		}
		w.until("applied", time.Minute, func() bool { return k.count(0) == hours*60 })
		w.noRestarts()
	})
}

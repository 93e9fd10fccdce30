//go:build synctests

package looptest

import (
	"errors"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

func TestABurstDoesNotTakeAFollowerOutOfServiceButFallingBehindDoes(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put(0, "from before")
		k := newKeeper()
		k.setFail(errors.New("the store is away"), 0)
		_, f := w.follower("a", k)
		w.until("following", 30*time.Second, func() bool { return len(f.Status()) == 1 && f.Status()[0].Phase == kafka.Running })
		if f.Ready() == nil {
			w.Error("it is ready before it has caught up for the first time")
		}
		k.setFail(nil, 0)
		w.until("caught up", time.Minute, func() bool { return k.count(0) == 1 && f.Ready() == nil })
		w.pass(time.Hour) // so that what was handled last is old

		k.setFail(errors.New("the store is slow"), 0)
		w.put(0, "a burst")
		w.until("behind", time.Second, func() bool { return !f.Status()[0].CaughtUp() })
		begun := time.Now()
		if err := f.Ready(); err != nil {
			w.Errorf("a burst takes it out of service: %v", err)
		}
		w.until("out of service", time.Minute, func() bool { return f.Ready() != nil })
		if late := time.Since(begun); late < kafka.ReadyLag-time.Second || late > kafka.ReadyLag+time.Second {
			w.Errorf("it is out of service after %s", late)
		}
		k.setFail(nil, 0)
		w.until("back", time.Minute, func() bool { return f.Ready() == nil })
	})
}

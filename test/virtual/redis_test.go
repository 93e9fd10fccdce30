package virtual

import (
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestScenario32AnEmptyRedisMakesReadsStaleAndThenRightButNobodyOffline(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		from := now() + second - now()%second
		end := from + 30*minute
		people := steadyUsers(10, from, end)
		gone := steady(20, from, from+minute, 15*second)
		var all sync.WaitGroup
		all.Go(func() { w.play(p.base, append(people, gone)...) })
		viewer := w.watch(p.base, 1, 2, 20)
		w.sleepTo(from + 10*minute + 300) // not when the projector looks anyway
		before := len(viewer.changes())

		w.redis.Server().FlushAll()
		stale := 0
		for range 200 {
			for user, state := range w.batch(p.base, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10") {
				if word(state) != "online" {
					w.Errorf("after the flush the batch says of user %s %s", user, word(state))
				}
			}
			for _, user := range []schemas.UserID{1, 10, 20} {
				got := w.user(p.base, user)
				if want := map[bool]string{true: "offline", false: "online"}[user == 20]; word(got.State) != want {
					w.Errorf("after the flush user %d is %s", user, word(got.State))
				}
				if got.StaleSince != 0 {
					stale++
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		if stale == 0 {
			w.Error("no answer was said to be stale")
		}
		w.readsAre(p.base, byUser(w.likeTheOracle()))
		if changes := viewer.changes()[before:]; len(changes) > 0 {
			w.Errorf("the flush showed on the stream: %v", changes)
		}

		// Redis is gone for a while.
		w.redis.Server().SetError("ERR gone")
		for range 60 {
			time.Sleep(time.Second)
			if got := w.user(p.base, 1); word(got.State) != "online" {
				w.Errorf("without Redis user 1 is %s", word(got.State))
			}
		}
		w.redis.Server().SetError("")
		all.Wait()
		time.Sleep(6 * time.Minute)

		users := byUser(w.likeTheOracle())
		w.readsAre(p.base, users)
		viewer.stop()
		p.stop()
		w.storedAre(users)
		for _, someone := range append(people, gone) {
			w.expected(someone, users[someone.user])
		}
	})
}

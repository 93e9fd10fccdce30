//go:build synctests

package looptest

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestEveryRecordIsCopiedOnceAndCommittedWithItsCheckpoint(t *testing.T) {
	onEach(t, 2, func(w *world) {
		stop, _ := w.joined("a", 2)
		for range 10 {
			w.beat(0, "x")
			w.beat(1, "y")
			time.Sleep(100 * time.Millisecond)
		}
		w.until("all copied", 5*time.Second, func() bool { c := w.counts(); return c["x"] == 10 && c["y"] == 10 })
		must.Do(w, stop())
		offset, checkpoint := w.commits(0)
		if offset < 10 || checkpoint.LogTime == 0 || checkpoint.Snapshot.Next != offset-5 {
			w.Errorf("committed offset %d with %+v", offset, checkpoint)
		}
		w.noRestarts()
	})
}

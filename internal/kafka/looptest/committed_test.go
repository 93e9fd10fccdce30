//go:build synctests

package looptest

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestCommittedReturnsOffsetsAndCheckpointsOfThePartitionsThatHaveThem(t *testing.T) {
	onEach(t, 3, func(w *world) {
		if all, err := kafka.Committed(w.Context(), w.cfg, "detector", schemas.Heartbeats); err != nil || len(all) != 0 {
			w.Fatalf("before anything was committed: %v, %v", all, err)
		}
		stop, _ := w.joined("a", 3)
		w.beat(1, "x")
		w.until("copied", 5*time.Second, func() bool { return w.counts()["x"] == 1 })
		must.Do(w, stop())
		all, err := kafka.Committed(w.Context(), w.cfg, "detector", schemas.Heartbeats)
		if err != nil || len(all) == 0 {
			w.Fatalf("%v, %v", all, err)
		}
		for id, c := range all {
			want, _ := w.commits(id)
			checkpoint, err := schemas.DecodeCheckpoint(c.Metadata)
			if c.Offset != want || err != nil || checkpoint.LogEpoch != 1 {
				w.Errorf("partition %d: %+v, %v; want offset %d", id, c, err, want)
			}
		}
		if _, ok := all[1]; !ok {
			w.Error("partition 1 is left out")
		}
		if others, err := kafka.Committed(w.Context(), w.cfg, "nobody", schemas.Heartbeats); err != nil || len(others) != 0 {
			w.Errorf("a group that does not exist: %v, %v", others, err)
		}
		if _, err := kafka.Committed(w.Context(), kafka.Config{}, "detector", schemas.Heartbeats); err == nil {
			w.Error("no brokers are needed")
		}
	})
}

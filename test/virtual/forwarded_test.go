package virtual

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Beats come into the wrong partition while all detectors are down for eight seconds. What is forwarded
// afterwards comes later than the limits of its users, who were all acknowledged.
func TestBeatsInAWrongPartitionKeepUsersOnlineWhileDetectorsAreDown(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		w.config.Policy.HeartbeatInterval, w.config.Policy.HeartbeatJitter = 3*time.Second, 0
		w.config.Policy.OnlineTTL, w.config.Policy.OfflineDebounce = 8*time.Second, 2*time.Second
		detector := w.start("detector", "detector")
		const users = 40
		beat := func(from schemas.UserID) { // each user of whom this is the turn
			for user := from; user <= users; user += 12 {
				partition := schemas.PartitionOf(user, 2)
				if user%4 != 0 { // the others keep the log's time going
					partition = 1 - partition
				}
				w.write(schemas.Outgoing{Topic: schemas.Heartbeats, Partition: partition, Key: user.Key(),
					Value: schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 7, Kind: schemas.Mobile}})})
			}
		}
		for step := range schemas.UserID(4 * 60) { // a minute
			switch step {
			case 4 * 20:
				detector.stop()
			case 4 * 28:
				detector = w.begin("detector", "detector")
			}
			beat(1 + step%12)
			time.Sleep(250 * time.Millisecond)
		}
		detector.awaitReady()
		w.tap.catchUp()
		got := byUser(w.tap.committed())
		for user := schemas.UserID(1); user <= users; user++ {
			if of := got[user]; len(of) != 1 || of[0].To != schemas.Online {
				t.Errorf("user %d, of partition %d, was published as %v, want online once", user, schemas.PartitionOf(user, 2), of)
			}
		}
		detector.stop()
	})
}

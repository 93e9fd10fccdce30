package schemas_test

import (
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// A consumer gets bytes from its Kafka client, which must read committed.
func ExampleTransition_Decode() {
	sent := schemas.Transition{
		User: 42, From: schemas.Offline, To: schemas.Online, At: 1_795_168_800_123, Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: schemas.NewVersion(1, 1000, 0),
	}
	newest := map[schemas.UserID]schemas.Version{}
	for _, value := range [][]byte{sent.Encode(), sent.Encode()} { // it may come twice
		var change schemas.Transition
		if err := change.Decode(value); err != nil {
			fmt.Println("to be looked at by a person:", err)
			continue
		}
		if change.Version <= newest[change.User] {
			continue
		}
		newest[change.User] = change.Version
		fmt.Printf("%s user %d is %s (%s)\n", change.At, change.User, schemas.StateWord(change.To), schemas.CauseWord(change.Cause))
	}
	// Output: 2026-11-20T10:00:00.123Z user 42 is online (first_beat)
}

// A beat is a frame of length one, in the partition that the key chooses.
func ExampleAppendFrame() {
	value := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 42, Device: 7, Kind: schemas.Web}})
	fmt.Println(len(value), "bytes to partition", schemas.PartitionOf(42, 12))
	// Output: 21 bytes to partition 4
}

package kafka

import (
	"testing"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

func TestChangesAreNumberedInTheOrderInWhichTheyAreAppended(t *testing.T) {
	t.Parallel()
	keys := signing.Of([]signing.Master{{1}})
	s, checker := newSigner(keys), keys.Checker("presence.heartbeats", 3)
	last := uint64(0)
	hide := schemas.AppendVisibility(make([]byte, 0, 100), 1, schemas.Nobody)
	for range 10 {
		out := schemas.Outgoing{Topic: schemas.Heartbeats, Partition: 3, Value: hide}
		release := s.sign(&out, "presence.heartbeats")
		if s.mu.TryLock() {
			t.Fatal("another change may be appended before this one")
		}
		release()
		var f schemas.Frame
		if err := f.Decode(out.Value); err != nil {
			t.Fatal(err)
		}
		if err := checker.Check(&f, schemas.Millis(f.Counter)); err != nil || f.Writer != s.writer || f.Counter <= last {
			t.Errorf("writer %d, counter %d after %d: %v", f.Writer, f.Counter, last, err)
		}
		last = f.Counter
	}
	beat := schemas.Outgoing{Topic: schemas.Heartbeats, Partition: 3,
		Value: schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 1, Device: 1}})}
	s.sign(&beat, "presence.heartbeats")()
	var f schemas.Frame
	if err := f.Decode(beat.Value); err != nil || checker.Check(&f, 0) != nil || f.Writer != 0 {
		t.Errorf("a beat has writer %d: %v", f.Writer, err)
	}
}

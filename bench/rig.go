package main

import (
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// handled is how many records of all partitions a detector has handled, of those that the log ever had.
func handled(d *loadtest.Detector) (n int64) {
	for _, p := range d.Status() {
		if p.Phase == kafka.Running {
			n += p.Offset
		}
	}
	return n
}

// gather makes everybody online and returns when the detector has committed to it.
func gather(t *loadtest.T, rig *loadtest.Rig, d *loadtest.Detector, frames []schemas.Outgoing) {
	d.Assigned()
	writeAll(t, rig, frames)
	last := end(t, rig)
	t.Until(func() string { return fmt.Sprintf("everybody comes online: %d of %d frames", handled(d), last) },
		func() bool { return handled(d) >= last })
}

// end is how many records the heartbeats topic ever had.
func end(t *loadtest.T, rig *loadtest.Rig) int64 { return sum(ends(t, rig)) }

// ends are the next offsets of its partitions.
func ends(t *loadtest.T, rig *loadtest.Rig) map[int32]int64 {
	all := map[int32]int64{}
	for p := range t.Partitions {
		_, end, err := rig.Reader.Bounds(t.Context(), schemas.Heartbeats, p)
		t.Check(err)
		all[p] = end
	}
	return all
}

// window is how many records may be unacknowledged.
const window = 8_000

// writeAll appends records and waits until Kafka has them all.
func writeAll(t *loadtest.T, rig *loadtest.Rig, outs []schemas.Outgoing) {
	acknowledged := make(chan error, window)
	for i := range outs {
		if i >= window {
			t.Check(<-acknowledged)
		}
		rig.Producer.Append(t.Context(), outs[i], func(err error) { acknowledged <- err })
		t.Progress.Say("  writing to Kafka: %d of %d records", i, len(outs))
	}
	for range min(window, len(outs)) {
		t.Check(<-acknowledged)
	}
}

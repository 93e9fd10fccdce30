package liveness

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// BenchmarkSilence measures the one record at which everybody is found silent, and that at which everybody is
// forgotten: all users were last heard in the same millisecond.
func BenchmarkSilence(b *testing.B) {
	const users, rows = 250_000, 1000
	settings := Defaults()
	settings.AwayTTL = 0
	var frame schemas.Frame
	transitions := 0
	apply := func(m *Machine, offset int64, now schemas.Millis, value []byte, out *Output) {
		if err := frame.Decode(value); err != nil {
			b.Fatal(err)
		}
		out.Reset()
		m.Apply(offset, now, &frame, out)
		transitions += len(out.Transitions)
	}
	tick := schemas.AppendTick(nil)
	beats := make([]schemas.Beat, rows)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m, out := New(settings, 0, 1, 1, 0), Output{}
		offset := int64(0)
		for first := 0; first < users; first += rows {
			for i := range beats {
				beats[i] = schemas.Beat{User: schemas.UserID(first + i + 1), Device: 7, Kind: schemas.Mobile}
			}
			apply(m, offset, start, schemas.AppendFrame(nil, schemas.FrameHead{}, beats), &out)
			offset++
		}
		now := start
		for now < start+44_000 {
			now += 4000
			apply(m, offset, now, tick, &out)
			offset++
		}
		transitions = 0
		b.StartTimer()
		for end := now + 70_000; now < end; offset++ { // the last ticks forget when they left
			now += 4000
			apply(m, offset, now, tick, &out)
		}
		b.StopTimer()
		if transitions != users || m.Users() != 0 {
			b.Fatalf("%d transitions, %d users are left", transitions, m.Users())
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/users, "ns/user")
}

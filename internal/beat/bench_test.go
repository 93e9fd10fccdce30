package beat_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nowhere is a log that takes everything and keeps nothing.
type nowhere struct{}

func (nowhere) Append(_ context.Context, _ schemas.Outgoing, done func(error)) { done(nil) }

func newClient(tb testing.TB, partitions int32) *beat.Buffer {
	c := must.Get(beat.New(beat.Config{GatewayID: "gw-1", Partitions: partitions}, nowhere{}))(tb)
	tb.Cleanup(func() { must.Do(tb, c.Close(context.Background())) })
	return c
}

// BenchmarkBeat is a repeated beat of one of 100,000 devices, from as many
// goroutines as there are cores, while the buffer flushes.
func BenchmarkBeat(b *testing.B) {
	const devices = 100_000
	c := newClient(b, 12)
	for user := range schemas.UserID(devices) {
		must.Do(b, c.Beat(user+1, nil, 1, schemas.Mobile, 0))
	}
	var lane atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		user := schemas.UserID(lane.Add(1) * 7919)
		for pb.Next() {
			user = user%devices + 1
			if err := c.Beat(user, nil, 1, schemas.Mobile, 0); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// Not parallel: it counts the allocations of the whole process. In the bubble no time
// passes while it beats, so that nothing is flushed meanwhile.
func TestRepeatedBeatsDoNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, 12)
		beat := func() {
			for user := range schemas.UserID(100) {
				if err := c.Beat(user+1, nil, 1, schemas.Mobile, 0); err != nil {
					t.Error(err)
				}
			}
		}
		beat()
		synctest.Wait()
		if n := testing.AllocsPerRun(100, beat); n != 0 {
			t.Fatalf("%v allocations in 100 beats", n)
		}
	})
}

// Not parallel: it measures the heap of the whole process.
func TestADeviceCostsAtMost200BytesOfMemory(t *testing.T) {
	const devices = 200_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	synctest.Test(t, func(t *testing.T) {
		before := heap()
		c := newClient(t, 12)
		for range 5 { // beating more often costs nothing
			for user := range schemas.UserID(devices) {
				must.Do(t, c.Beat(user+1, nil, 1, schemas.Mobile, 0))
			}
		}
		per := (heap() - before) / devices
		runtime.KeepAlive(c)
		if per > 200 {
			t.Fatalf("%d bytes per device", per)
		}
		t.Logf("%d bytes per device", per)
	})
}

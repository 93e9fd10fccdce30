package live

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// One change of one user to n viewers in this process, until each has written it.
func BenchmarkOneChangeToManyViewers(b *testing.B) {
	for _, n := range []int{1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := bareHub(fanout.DefaultConfig())
			var written sync.WaitGroup
			viewers := make([]*viewer, n)
			written.Add(n)
			for i := range viewers {
				viewers[i] = h.newViewer(0, func([]byte) error { written.Done(); return nil }, nil)
				viewers[i].submit(request{kind: subscribe, ids: []schemas.UserID{1}})
			}
			written.Wait()
			version := int64(0)
			for b.Loop() {
				written.Add(n)
				version++
				h.Change(changeOf(1, version))
				written.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/viewer")
			for _, v := range viewers {
				v.close()
			}
		})
	}
}

// What an idle viewer costs in the core, without its transport.
func BenchmarkIdleViewer(b *testing.B) {
	for _, watched := range []int{1, 10, 50, 500} {
		b.Run(fmt.Sprintf("watching=%d", watched), func(b *testing.B) {
			const n = 2000
			h := bareHub(fanout.DefaultConfig())
			ids := make([]schemas.UserID, watched)
			for i := range ids {
				ids[i] = schemas.UserID(i + 1)
			}
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				viewers := make([]*viewer, n)
				var told sync.WaitGroup
				told.Add(n)
				for i := range viewers {
					viewers[i] = h.newViewer(0, func([]byte) error { told.Done(); return nil }, nil)
					viewers[i].submit(request{kind: subscribe, ids: ids})
				}
				told.Wait()
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc)+float64(after.StackInuse)-float64(before.StackInuse))/n, "B/viewer")
				for _, v := range viewers {
					v.close()
				}
			}
		})
	}
}

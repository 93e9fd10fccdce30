package replay

import (
	"io"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func entries(seed uint64, users, length int) []store.Entry {
	log := storetest.RandomLog(seed, users, length)
	all := make([]store.Entry, len(log))
	for i, t := range log {
		all[i].Transition = *t
		all[i].SetEvent(nil)
	}
	return all
}

func BenchmarkWriting(b *testing.B) {
	rows := entries(1, 50_000, 100_000)
	for _, format := range []Format{JSONL, CSV, Parquet} {
		b.Run(string(format), func(b *testing.B) {
			w := Changes(format, io.Discard)
			b.ReportAllocs()
			for i := range b.N {
				must.Do(b, w.Write(&rows[i%len(rows)]))
			}
			must.Do(b, w.Close())
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

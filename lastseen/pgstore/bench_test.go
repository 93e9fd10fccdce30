package pgstore

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func BenchmarkAppend(b *testing.B) {
	const rows = 5000
	s := newStore(b)
	log := storetest.RandomLog(9, 1_000_000, rows*b.N)
	expected := store.Unknown
	b.ResetTimer()
	for i := range b.N {
		next := int64((i + 1) * rows)
		must.Do(b, s.Append(b.Context(), store.Batch{Expected: expected, Next: next, Changes: log[i*rows : (i+1)*rows]}))
		expected = next
	}
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}

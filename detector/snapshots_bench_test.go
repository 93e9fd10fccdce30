package detector

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// BenchmarkRecordsDuringASnapshot handles records of a steady partition while a snapshot of it is written. It
// reports how long a record takes with and without the snapshot, and the memory that the snapshot needs at most, as
// a share of the state.
func BenchmarkRecordsDuringASnapshot(b *testing.B) {
	for _, users := range []int{1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(users), func(b *testing.B) {
			for range b.N {
				measureSnapshot(b, users)
			}
		})
	}
}

func measureSnapshot(b *testing.B, users int) {
	config := Config{Settings: liveness.Defaults(), Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()), Now: time.Now,
		Snapshots: Cadence{Least: 1000 * time.Hour, Most: 1000 * time.Hour}}
	p := NewPartition(config, 0)
	nothing := func(context.Context, schemas.Topic, int64, int64, func(*schemas.Record) error) error { return nil }
	if err := p.Restore(context.Background(), stream.Assignment{Partitions: 1, Offset: -1}, nothing); err != nil {
		b.Fatal(err)
	}
	next, beats := int64(0), make([]schemas.Beat, 16)
	// round handles a beat of everybody within 15 s, and returns how long each record took.
	round := func(each func(record int)) (took []time.Duration) {
		began, out := start+schemas.Millis(15_000*next/int64(users/16)), stream.Outbox{}
		for i := range users / 16 {
			for j := range beats {
				beats[j] = schemas.Beat{User: schemas.UserID(i*16+j+1) << 22, Device: 7, Kind: schemas.Web}
			}
			r := schemas.Record{Offset: next, Time: began + schemas.Millis(15_000*i/(users/16)), Value: schemas.AppendFrame(nil, schemas.FrameHead{}, beats)}
			out.Records, out.Hints = out.Records[:0], out.Hints[:0]
			before := time.Now()
			if err := p.Handle(&r, &out); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(before))
			next++
			each(i)
		}
		slices.Sort(took)
		return took
	}
	report := func(name string, took []time.Duration) {
		b.ReportMetric(took[len(took)/2].Seconds()*1e3, name+"-p50-ms")
		b.ReportMetric(took[len(took)*9999/10000].Seconds()*1e3, name+"-p99.99-ms")
		b.ReportMetric(took[len(took)-1].Seconds()*1e3, name+"-max-ms")
	}
	round(func(int) {}) // everybody comes online; the first snapshot is written
	report("without", round(func(int) {}))
	p.snapshots.begin(p)
	report("with", round(func(int) {}))
	live, most := liveBytes(), uint64(0)
	p.snapshots.begin(p)
	round(func(record int) {
		if record%(users/16/20) == 0 && p.snapshots.capture != nil {
			most = max(most, liveBytes())
		}
	})
	if p.snapshots.capture != nil {
		b.Fatal("the snapshot is not complete")
	}
	b.ReportMetric(100*(float64(most)-float64(live))/float64(live), "extra-%")
	b.ReportMetric(float64(live)/float64(users), "B/user")
	b.ReportMetric(float64(p.snapshots.size)/float64(users), "snapshot-B/user")
}

// liveBytes is the memory in use.
func liveBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

package detector

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// BenchmarkOneBeatARecord handles records of one beat each, of users who are online.
func BenchmarkOneBeatARecord(b *testing.B) {
	const users = 125_000
	config := Config{Settings: liveness.Defaults(), Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()), Now: time.Now}
	p, nothing := NewPartition(config, 0), func(context.Context, schemas.Topic, int64, int64, func(*schemas.Record) error) error { return nil }
	if err := p.Restore(context.Background(), stream.Assignment{Partitions: 1, Offset: -1}, nothing); err != nil {
		b.Fatal(err)
	}
	values := make([][]byte, users)
	for i := range values {
		values[i] = schemas.AppendFrame(nil, schemas.FrameHead{},
			[]schemas.Beat{{User: schemas.UserID(i+1) << 22, Device: 7, Kind: schemas.Web, Age: schemas.Millis(i % 100)}})
	}
	out, next, r := stream.Outbox{}, int64(0), schemas.Record{}
	handle := func() {
		r = schemas.Record{Offset: next, Time: start + schemas.Millis(next*15_000/users), Value: values[next%users]}
		out.Records, out.Hints = out.Records[:0], out.Hints[:0]
		if err := p.Handle(&r, &out); err != nil {
			b.Fatal(err)
		}
		next++
	}
	for range 2 * users {
		handle()
	}
	b.ReportAllocs()
	for b.Loop() {
		handle()
	}
}

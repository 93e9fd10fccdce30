package redisbus_test

import (
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// Publishing batches of 500 changes of different users, nobody watching.
func BenchmarkPublish(b *testing.B) {
	for name, start := range map[string]func(testing.TB) *redistest.Server{"miniredis": redistest.Mini, "redis": redistest.Own} {
		b.Run(name, func(b *testing.B) {
			r := start(b)
			bus, err := redisbus.Open(redisbus.Options{Addr: r.Addr}, fanout.DefaultConfig(), fanout.NewMetrics(nil), nil)
			must.Do(b, err)
			defer func() { _ = bus.Close() }()
			version := int64(0)
			changes := make([]fanout.Change, 500)
			for b.Loop() {
				version++
				for i := range changes {
					changes[i] = change(schemas.UserID(1+i), version, schemas.Offline, schemas.Online)
				}
				if sent, err := bus.Publish(b.Context(), changes); sent != len(changes) || err != nil {
					b.Fatal(sent, err)
				}
			}
			b.ReportMetric(float64(b.N*len(changes))/b.Elapsed().Seconds(), "changes/s")
		})
	}
}

package redisview

import (
	"fmt"

	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// BenchmarkWriteSeenOf1000 measures a row of a user, with the processor time and the memory of a
// redis-server of its own.
func BenchmarkWriteSeenOf1000(b *testing.B) {
	v := open(b, redistest.Own(b))
	const users, batch = 1_000_000, 1000
	info := func(section, name string) (value float64) {
		text := must.Get(v.client.Info(b.Context(), section).Result())(b)
		_, rest, _ := strings.Cut(text, "\n"+name+":")
		if _, err := fmt.Sscanf(rest, "%g", &value); err != nil {
			b.Fatalf("%s in %s: %v", name, text, err)
		}
		return value
	}
	spent := func() float64 { return info("cpu", "used_cpu_user") + info("cpu", "used_cpu_sys") }
	rows := make([]Seen, batch)
	at, next := schemas.MillisOf(time.Now()), 0
	write := func() {
		for i := range rows {
			if next%users == 0 {
				at += 60_000
			}
			next++
			rows[i] = Seen{User: schemas.UserID(next%users + 1_000_000), At: at, Version: schemas.Version(at), Interval: 60_000,
				Devices: []Device{device(7, at-1000)}}
		}
		must.Get(v.WriteSeen(b.Context(), rows))(b)
	}
	empty := info("memory", "used_memory")
	for range users / batch {
		write()
	}
	memory := info("memory", "used_memory") - empty
	before, written := spent(), next
	for b.Loop() {
		write()
	}
	b.ReportMetric((spent()-before)*1e6/float64(next-written), "redis-µs/row")
	b.ReportMetric(memory/users, "bytes/user")
}

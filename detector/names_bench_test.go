package detector

import (
	"fmt"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// BenchmarkNamesComeAndAreFound puts a million names into a table, and finds them.
func BenchmarkNamesComeAndAreFound(b *testing.B) {
	const users = 1_000_000
	for kind, format := range map[string]string{"text": "user-%012d", "UUID": "00000000-0000-4000-a000-%012x"} {
		all, ids := make([]schemas.Name, users), make([]schemas.UserID, users)
		for i := range all {
			all[i] = schemas.Name{Tenant: "acme", Text: fmt.Sprintf(format, i)}
			ids[i] = named.ID("acme", all[i].Text)
		}
		var table *names
		b.Run("put "+kind, func(b *testing.B) {
			for b.Loop() {
				table = newNames(named)
				for i := range all {
					table.put(ids[i], all[i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/users, "ns/user")
		})
		b.Run("find "+kind, func(b *testing.B) {
			for b.Loop() {
				for i := range all {
					if known := table.learn(ids[i], all[i]); known == nil {
						b.Fatal("a name is missing")
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/users, "ns/user")
		})
	}
}

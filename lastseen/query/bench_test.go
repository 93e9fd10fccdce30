package query_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// BenchmarkBatchOf50 is the handler with Redis behind it, without a socket
// before it.
func BenchmarkBatchOf50(b *testing.B) {
	const users, size = 10_000, 50
	w := newWorld(b, redistest.Real(b))
	w.upTo(b, now()+3_600_000)
	log := make([]*schemas.Transition, users)
	for i := range log {
		log[i] = arrives(schemas.UserID(i+1), schemas.Version(i+1), day)
	}
	w.inRedis(b, log...)
	paths := make([]string, 100)
	for n := range paths {
		ids := make([]string, size)
		for i := range ids {
			ids[i] = fmt.Sprint((n*size+i*37)%users + 1)
		}
		paths[n] = "/presence/batch?user_ids=" + strings.Join(ids, ",")
	}
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			recorder := httptest.NewRecorder()
			w.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, paths[n%len(paths)], nil))
			if recorder.Code != http.StatusOK {
				b.Error(recorder.Body)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

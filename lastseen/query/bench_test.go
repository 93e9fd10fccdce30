package query_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// BenchmarkBatchOf50 is the handler with Redis behind it, without a socket before it: of users without a list of denied
// viewers, by somebody who is known; and of users of whom each denies 10,000 viewers.
func BenchmarkBatchOf50(b *testing.B) {
	b.Run("lists=no", func(b *testing.B) { batches(b, 10_000, 0) })
	b.Run("lists=10000", func(b *testing.B) { batches(b, 100, schemas.MaxDenied) })
}

func batches(b *testing.B, users, denied int) {
	const size = 50
	w := newWorld(b, redistest.Real(b))
	byQuery(w)
	w.upTo(b, now()+3_600_000)
	log := make([]*schemas.Transition, users)
	for i := range log {
		log[i] = arrives(schemas.UserID(i+1), schemas.Version(i+1), day)
	}
	w.inRedis(b, log...)
	for from := 0; from < denied; from += schemas.MaxDenies {
		for _, t := range log {
			viewers := make([]schemas.UserID, schemas.MaxDenies)
			for i := range viewers {
				viewers[i] = schemas.UserID(100_000 + from + i)
			}
			t.Cause, t.From, t.AudienceBefore, t.Denies = schemas.AudienceSet, t.To, t.Override.Audience, must.Get(schemas.NewDenies("", t.User, viewers, nil))(b)
			t.Version += schemas.Version(users)
			t.Override.Audience = t.Version
		}
		must.Do(b, w.view.WriteDenies(b.Context(), log))
		w.inRedis(b, log...)
	}
	paths := make([]string, 100)
	for n := range paths {
		ids := make([]string, size)
		for i := range ids {
			ids[i] = fmt.Sprint((n*size+i*37)%users + 1)
		}
		paths[n] = "/presence/batch?user_ids=" + strings.Join(ids, ",") + "&user_id=100007"
	}
	b.SetParallelism(8)
	b.ResetTimer()
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

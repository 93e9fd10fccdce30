package query_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/fair"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// slowStores answer every read after readTime.
type slowStores struct {
	query.View
	store.Reader
}

const readTime = 20 * time.Millisecond

func (slowStores) ReadInto(context.Context, []schemas.UserID, []redisview.Entry) (redisview.ProgressMap, error) {
	time.Sleep(readTime)
	return nil, context.DeadlineExceeded
}

func (slowStores) Users(_ context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	return nil, nil
}

func (slowStores) Names(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	return nil, nil
}

// ask reads a user of a tenant and returns the status, Retry-After and the time that it took.
func ask(t *testing.T, mux http.Handler, tenant string) (status int, after string, took time.Duration) {
	begun := time.Now()
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/presence/batch?user_ids=ann&tenant="+tenant, nil))
	return recorder.Code, recorder.Header().Get("Retry-After"), time.Since(begun)
}

func TestATenantThatReadsTooMuchDoesNotTakeTheShareOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, metrics := lastseen.Defaults(), lastseen.NewMetrics(prometheus.NewRegistry())
		server := query.NewServer(query.NewReader(slowStores{}, slowStores{}, partitions, config, metrics), slog.New(slog.DiscardHandler))
		server.SetUsers(people, tenantOf)
		server.SetGate(fair.NewGate(fair.GateConfig{AtWork: 2, Waiting: 100, Wait: time.Second}))
		mux := http.NewServeMux()
		server.Routes(mux)
		var requests sync.WaitGroup
		var refused atomic.Int32
		for range 300 {
			requests.Go(func() {
				switch status, after, _ := ask(t, mux, "noisy"); {
				case status == http.StatusServiceUnavailable && after == "1":
					refused.Add(1)
				case status != http.StatusOK:
					t.Errorf("status %d, Retry-After %q", status, after)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); n != 300-2-100 {
			t.Errorf("%d reads were refused at once", n)
		}
		for range 20 {
			if status, _, took := ask(t, mux, "quiet"); status != http.StatusOK || took > 2*readTime {
				t.Fatalf("the quiet tenant got %d after %s; a read takes %s", status, took, readTime)
			}
		}
		requests.Wait()
		if got := testutil.ToFloat64(metrics.ReadsBusy); got != float64(refused.Load()) {
			t.Errorf("%v reads are counted, %d were refused", got, refused.Load())
		}
	})
}

package httpgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/beat/beattest"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

// searching is a log that answers records of erased users after a second: those that it takes, and those
// whose topic it has looked for in vain.
type searching struct {
	beattest.Log
	missing atomic.Bool
}

func (s *searching) Append(ctx context.Context, record schemas.Outgoing, done func(error)) {
	if record.Topic != schemas.Erasures {
		s.Log.Append(ctx, record, done)
		return
	}
	time.AfterFunc(time.Second, func() {
		if s.missing.Load() {
			done(errors.New("no such topic"))
			return
		}
		s.Log.Append(ctx, record, done)
	})
}

// An erasure that waits holds a slot, which changes of visibility of all tenants need.
func TestErasuresDoNotWaitEachForATopicThatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &searching{Log: beattest.Log{Partitions: partitions}}
		log.missing.Store(true)
		g, err := httpgate.New(byName(), log, ingest.NewMetrics(nil))
		if err != nil {
			t.Fatal(err)
		}
		g.Erases(func(context.Context) (admin.Copies, error) { return admin.Copies{}, nil })
		mux := http.NewServeMux()
		g.Routes(mux)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := g.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		takes := func(when string, want time.Duration) {
			t.Helper()
			began := time.Now()
			for i := range 10 {
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, fmt.Sprint("/presence/ann", i), nil))
				if w.Code != http.StatusOK {
					t.Errorf("%s an erasure is answered %d %s", when, w.Code, w.Body)
				}
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s ten erasures take %s, want %s", when, took, want)
			}
			time.Sleep(2 * time.Second)
		}
		takes("at first", time.Second)
		takes("without the topic", 0)
		log.missing.Store(false)
		takes("when there is a topic, which is not known yet,", 0)
		takes("with the topic", 10*time.Second)
		cancel()
		running.Wait()
	})
}

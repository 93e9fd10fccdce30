package httpgate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = 4

// endpoint is a running gate in front of a log in memory.
type endpoint struct {
	t    *testing.T
	mux  *http.ServeMux
	log  *beattest.Log
	stop func() // ends Run and waits for it; may be called twice
}

func config() ingest.Config {
	cfg := ingest.Defaults()
	cfg.GatewayID, cfg.Partitions = "ingest-1", partitions
	return cfg
}

func open(t *testing.T, cfg ingest.Config, more ...func(*httpgate.Gate)) endpoint {
	t.Helper()
	log := &beattest.Log{Partitions: partitions}
	mux, stop := start(t, cfg, log, more...)
	t.Cleanup(stop)
	return endpoint{t, mux, log, stop}
}

// start runs a gate that is set up by more. stop ends it and waits; it may be called twice.
func start(
	tb testing.TB, cfg ingest.Config, log beat.Appender, more ...func(*httpgate.Gate),
) (mux *http.ServeMux, stop func()) {
	tb.Helper()
	g := must.Get(httpgate.New(cfg, log, ingest.NewMetrics(nil)))(tb)
	for _, set := range more {
		set(g)
	}
	mux = http.NewServeMux()
	g.Routes(mux)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Run(ctx); err != nil {
			tb.Error(err)
		}
	}()
	return mux, func() { cancel(); <-done }
}

// inBubble runs a test with an endpoint in virtual time.
func inBubble(t *testing.T, cfg ingest.Config, test func(d endpoint), more ...func(*httpgate.Gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, cfg, more...)
		test(d)
		d.stop()
	})
}

// epoch is when the n-th process of a gateway has started today, in a bubble on its day.
func epoch(n int) schemas.Millis {
	return schemas.MillisOf(time.Now().Truncate(24*time.Hour)) + schemas.Millis(n)
}

// named is a request of a gateway's n-th process.
func named(id string, n int, beats string) string {
	return fmt.Sprintf(`{"gateway_id":%q,"gateway_epoch":"%d","beats":[%s]}`, id, epoch(n), beats)
}

// erases makes a gate erase users.
func erases(g *httpgate.Gate) {
	g.Erases(func(context.Context) (admin.Copies, error) { return admin.Copies{}, nil })
}

// send makes a request; headers are pairs.
func (d endpoint) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	return d.by(nil, method, path, body, headers...)
}

// by makes a request of a caller.
func (d endpoint) by(c *ingest.Caller, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.mux.ServeHTTP(w, r.WithContext(ingest.WithCaller(r.Context(), c)))
	return w
}

// as posts heartbeats of a caller.
func (d endpoint) as(c *ingest.Caller, body string) *httptest.ResponseRecorder {
	return d.by(c, http.MethodPost, "/presence/heartbeats", body)
}

func (d endpoint) post(body string, headers ...string) *httptest.ResponseRecorder {
	return d.send(http.MethodPost, "/presence/heartbeats", body, headers...)
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (d endpoint) wants(w *httptest.ResponseRecorder, status int, body string) {
	d.t.Helper()
	if w.Code != status || body != "" && strings.TrimSpace(w.Body.String()) != body {
		d.t.Errorf("got %d %s, want %d %s", w.Code, w.Body, status, body)
	}
}

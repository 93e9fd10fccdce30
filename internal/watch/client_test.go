package watch_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARefusalForGoodIsAnErrorAndATemporaryOneIsGotOver(t *testing.T) {
	t.Parallel()
	answers := []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusForbidden}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			t.Errorf("headers %v", r.Header)
		}
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	tries := 0
	for m, err := range watch.Messages(t.Context(), watch.Options{URL: server.URL,
		Header: http.Header{"Authorization": {"Bearer x"}}, Client: &http.Client{Transport: transport}}) {
		if err != nil {
			if !strings.Contains(err.Error(), "403") {
				t.Fatal(err)
			}
			break
		}
		if m.Type != watch.Disconnected || m.RetryIn <= 0 || m.RetryIn > time.Minute {
			t.Fatalf("%+v", m)
		}
		tries++
	}
	if tries != 2 || len(answers) != 0 {
		t.Fatalf("%d tries, %v left", tries, answers)
	}
}

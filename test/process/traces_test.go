//go:build unix

package process_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans collects the names of what is exported to it.
type spans struct {
	mu    sync.Mutex
	names []string
	of    []string // service.name
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request collector.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not traces", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				s.of = append(s.of, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names = append(s.names, span.Name)
			}
		}
	}
}

func (s *spans) has(names ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(s.names, name) })
}

func (s *spans) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.names)))
}

func TestTracesGoWhereTheEnvironmentSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs processes, which -short is to avoid")
	}
	got := &spans{}
	server := httptest.NewServer(got)
	t.Cleanup(server.Close)
	h := testkit.NewDev(t)
	h.Change = func(c *exec.Cmd) {
		c.Env = append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_TRACES_SAMPLER=always_on", "OTEL_BSP_SCHEDULE_DELAY=100")
	}
	h.Up()
	h.MustSend(testkit.Beat{User: 1, Device: 1})
	testkit.Until(t, "the user is online", 10*time.Second, func() bool { return h.State(1) == "online" })
	want := []string{"POST /presence/heartbeats", "GET /presence/batch", "commit presence.heartbeats", "apply presence.transitions"}
	if !testkit.Within(10*time.Second, func() bool { return got.has(want...) }) {
		t.Errorf("spans of ingest, detector and stores: got %q, want %q", got.all(), want)
	}
	h.Stop()
	got.mu.Lock()
	defer got.mu.Unlock()
	for _, of := range got.of {
		if !strings.HasPrefix(of, "stillhere-") {
			t.Errorf("spans of %q", of)
		}
	}
}

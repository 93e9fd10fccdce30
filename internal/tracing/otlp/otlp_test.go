package otlp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// The released program has a smaller wrapper of ResponseWriters (deploy/release/slim); this test runs on it, too.
func TestTracedHandlersFlushHijackAndSetDeadlines(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // nobody listens: nothing is sampled
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	end := must.Get(Start(t.Context(), Process{Role: "api"}, func(error) {}))(t)
	defer func() { _ = end(t.Context()) }()
	release := make(chan struct{})
	routes := http.NewServeMux()
	routes.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.SetReadDeadline(time.Time{}); err != nil {
			t.Errorf("deadline: %v", err)
		}
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintln(w, "first")
		if err := control.Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		<-release
	})
	routes.HandleFunc("GET /socket", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		_, _ = io.WriteString(conn, "mine\n")
		_ = conn.Close()
	})
	server := httptest.NewServer(Handler(routes, func(r *http.Request) string { return r.URL.Path }))
	defer server.Close()

	answer := must.Get(http.Get(server.URL + "/stream"))(t)
	// The handler has not ended: the line was flushed.
	if line, err := bufio.NewReader(answer.Body).ReadString('\n'); err != nil || line != "first\n" || answer.StatusCode != http.StatusTeapot {
		t.Errorf("%q with %d: %v", line, answer.StatusCode, err)
	}
	close(release)
	_ = answer.Body.Close()

	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(server.URL, "http://")))(t)
	defer conn.Close()
	fmt.Fprint(conn, "GET /socket HTTP/1.1\r\nHost: x\r\n\r\n")
	if got, err := io.ReadAll(conn); err != nil || string(got) != "mine\n" {
		t.Errorf("%q: %v", got, err)
	}
}

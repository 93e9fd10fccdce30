package app

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestOnlyTrustedProxiesSayForWhomTheyAsk(t *testing.T) {
	t.Parallel()
	trusted := must.Get(parseProxies([]string{"10.0.0.0/8", "::1"}))(t)
	for _, c := range []struct{ from, said, want string }{
		{"192.0.2.1:5", "198.51.100.7", "192.0.2.1:5"}, // anybody can say that
		{"10.1.1.1:5", "198.51.100.7", "198.51.100.7:0"},
		{"10.1.1.1:5", "203.0.113.9, 198.51.100.7", "198.51.100.7:0"}, // what is before it the client wrote
		{"10.1.1.1:5", "198.51.100.7, 10.2.2.2", "198.51.100.7:0"},    // two proxies
		{"10.1.1.1:5", "10.2.2.2", "10.2.2.2:0"},
		{"10.1.1.1:5", "198.51.100.7:4711", "198.51.100.7:0"},
		{"[::1]:5", "[2001:db8::7]:4711", "[2001:db8::7]:0"},
		{"10.1.1.1:5", "198.51.100.7, unknown", "10.1.1.1:5"},
		{"10.1.1.1:5", "", "10.1.1.1:5"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.from
		if c.said != "" {
			r.Header.Set(forwarded, c.said)
		}
		got, said := "", ""
		trustProxies(trusted, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got, said = r.RemoteAddr, r.Header.Get(forwarded)
		})).ServeHTTP(httptest.NewRecorder(), r)
		if got != c.want {
			t.Errorf("%s says %q: the request is of %s, want %s", c.from, c.said, got, c.want)
		}
		if got == c.from && said != "" {
			t.Errorf("%s: what is not believed is handed on: %q", c.from, said)
		}
	}
}

func TestClientsBehindAProxyHaveSoManyPlacesEach(t *testing.T) {
	t.Parallel()
	inner := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	trusted := must.Get(parseProxies([]string{"127.0.0.1"}))(t)
	l := newBounded(inner, clientPort, 100, 1, newConnectionMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	l.proxy = trusted.has
	taken := make(chan net.Conn, 10)
	server := &http.Server{ConnContext: withConn, ConnState: trackState, Handler: trustProxies(trusted, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			taken <- conn
		}
	}))}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	ask := func(path, of string) int {
		t.Helper()
		conn := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String()))(t)
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\n\r\n", path, of)
		answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		answer.Body.Close()
		return answer.StatusCode
	}
	for range 3 { // one after the other
		if status := ask("/", "198.51.100.7"); status != http.StatusOK {
			t.Errorf("a request: %d", status)
		}
	}
	if status := ask("/stream", "198.51.100.7"); status != http.StatusSwitchingProtocols {
		t.Fatal(status)
	}
	stream := <-taken
	if status := ask("/", "198.51.100.7"); status != http.StatusServiceUnavailable {
		t.Errorf("while its stream is open: %d", status)
	}
	if status := ask("/stream", "198.51.100.8"); status != http.StatusSwitchingProtocols {
		t.Errorf("another client: %d", status)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if status := ask("/", "198.51.100.7"); status != http.StatusOK {
		t.Errorf("after its stream: %d", status)
	}
	if err := server.Close(); err != nil || <-ended == nil {
		t.Error(err)
	}
}

func TestALengthIsSeenHoweverItIsCut(t *testing.T) {
	t.Parallel()
	const said = "POST / HTTP/1.1\r\nHost: x\r\n\nCONTENT-Length: 4\r\n\r\n"
	for cut := 1; cut < len(said); cut++ {
		var l lengthSeen
		for _, part := range []string{said[:cut], said[cut:]} {
			l.look([]byte(part))
		}
		if !l.seen.Load() {
			t.Errorf("not seen when it is cut at %d", cut)
		}
	}
	var l lengthSeen
	if l.look([]byte(strings.ReplaceAll(said, "-", "_"))); l.seen.Load() {
		t.Error("seen where there is none")
	}
}
